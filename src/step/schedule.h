/* A schedule is a list of node ids; a node that appears twice is recomputed. Liveness, peak and cost all
 * follow from the list (docs/overview.md). */
#ifndef NEAP_STEP_SCHEDULE_H
#define NEAP_STEP_SCHEDULE_H

#include <string.h>

#include "base/vector.h"
#include "step/step.h"

struct schedule {
  VECTOR(int32_t) nodes;
};

#define schedule_free(schedule) vector_free(&(schedule)->nodes)

/* Makes `out` a copy of a list of nodes; on failure `out` is unchanged. */
static inline neap_status schedule_copy(struct schedule *out, const int32_t *nodes, size_t count) {
  TRY(vector_reserve(&out->nodes, count + 1));
  if (count > 0) memcpy(out->nodes.data, nodes, count * sizeof *nodes);
  out->nodes.count = count;
  return NEAP_OK;
}

static inline void swap_schedules(struct schedule *a, struct schedule *b) {
  const struct schedule swap = *a;
  *a = *b;
  *b = swap;
}

#endif
