/* A schedule is a list of node ids; a node that stands twice is recomputed. Liveness, peak and cost all
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

/* Makes `out` a copy of a list of nodes; on failure it is as it was. */
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

/* One value made at one position: lives from `at` to `last`, both included. */
struct instance {
  int32_t tensor; /* -1: the workspace of the node at `at` */
  int32_t at, last;
  int32_t takes_over; /* instance whose bytes it takes in place at `at`; -1: none */
  uint64_t bytes;
};

struct simulation {
  uint64_t peak_bytes; /* resident bytes included */
  int32_t peak_at;     /* the first position that reaches it */
  double cost;         /* sum over the schedule, in its order */
  int32_t recomputed;  /* positions that repeat a node */
};

/* Scores a schedule. NEAP_INVALID_PLAN names the rule and the position: an input that is not resident, a node
 * that must not repeat, an update before a reader, a node that never runs. O(positions + reads). */
neap_status simulate(const neap_step *step, const int32_t *schedule, int32_t length, struct simulation *out);

/* The same, and all instances in the order of the plan file: by position, outputs in their order, the
 * workspace (when not 0 bytes) last. The array belongs to the caller: free() it. */
neap_status simulate_instances(const neap_step *step, const int32_t *schedule, int32_t length,
                               struct simulation *out, struct instance **instances, int32_t *count);

#endif
