/* Pictures: memory over a step, memory against overhead, loss against learning rate. Each function returns a
 * text that the caller frees; NULL: out of memory. */
#ifndef NEAP_CLI_SVG_H
#define NEAP_CLI_SVG_H

#include "neap.h"

struct memory_picture {
  const char *title, *subtitle;
  const uint64_t *live; /* as neap_plan_profile gives it */
  const bool *again;    /* by position: whether its node has run before */
  int64_t positions;
  uint64_t bytes;  /* of the plan, its gaps included */
  uint64_t budget; /* 0: no line */
};
char *draw_memory(const struct memory_picture *picture, size_t *length);

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
char *draw_curve(const struct curve_picture *picture, size_t *length);

/* Losses of a run whose learning rate rises. */
struct rate_point {
  double rate, loss, smoothed;
};
struct rate_picture {
  const char *title;
  const struct rate_point *points; /* of rising rates */
  int64_t count;
  double suggested; /* 0: no rate is */
};
char *draw_rates(const struct rate_picture *picture, size_t *length);

#endif
