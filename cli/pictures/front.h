/* The front of a curve's points. */
#ifndef NEAP_CLI_FRONT_H
#define NEAP_CLI_FRONT_H

#include "pictures/svg.h"

/* Returns the places in `points` of those that no other beats, of equal ones the first, in rising order of
 * bytes and falling order of overhead. The caller frees it; NULL: out of memory. */
int64_t *curve_front(const struct curve_picture *picture, int64_t *count);

#endif
