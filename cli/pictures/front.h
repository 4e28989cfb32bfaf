/* The points of a curve, and those of them that count. */
#ifndef NEAP_CLI_FRONT_H
#define NEAP_CLI_FRONT_H

#include "neap.h"

struct curve_point {
  int series;
  double bytes, overhead;
  const neap_plan *plan;
  const neap_step *step; /* of the plan; NULL: the page's */
};
struct curve_picture {
  const char *title;
  const char *const *series; /* names: of planners, if there is no cost_label */
  int series_count;
  const struct curve_point *points; /* of one series in rising order of bytes and falling order of overhead */
  int64_t count;
  double lower_bound;     /* bytes; no plan needs less; 0: not known */
  double keep_all;        /* bytes */
  const char *cost_label; /* of the overhead; NULL: it is recomputation */
};

/* Returns the places in `points` of those that no other beats, of equal ones the first, in rising order of
 * bytes and falling order of overhead. The caller frees it; NULL: out of memory. */
int64_t *curve_front(const struct curve_picture *picture, int64_t *count);

#endif
