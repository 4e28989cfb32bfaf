/* Pictures: memory over a step, memory against overhead, loss against learning rate. Each function returns a
 * text that the caller frees; NULL: out of memory. */
#ifndef NEAP_CLI_SVG_H
#define NEAP_CLI_SVG_H

#include "pictures/front.h"

struct memory_picture {
  const char *title, *subtitle;
  const uint64_t *live; /* as neap_plan_profile gives it */
  const bool *again;    /* by position: whether its node has run before */
  int64_t positions;
  uint64_t bytes;  /* of the plan, its gaps included */
  uint64_t budget; /* 0: no line */
};
char *draw_memory(const struct memory_picture *picture, size_t *length);

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
