/* neap curve --allow */
#ifndef NEAP_CLI_TECHNIQUES_CURVE_H
#define NEAP_CLI_TECHNIQUES_CURVE_H

#include "shared/techniques.h"

/* Draws memory against cost for each combination of techniques into a file (NULL: none), and prints it.
 * Returns an exit status. */
int curve_techniques(const struct verb *verb, const struct techniques *techniques, int64_t points,
                     const char *out, bool json);

#endif
