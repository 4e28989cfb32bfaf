/* A plan: a schedule with an offset for every instance. It is plain data: src/plan/make.c makes it,
 * plan_file.c reads and writes it, check.c checks it. */
#ifndef NEAP_STEP_PLAN_H
#define NEAP_STEP_PLAN_H

#include "base/region.h"
#include "step/schedule.h"

struct placed {
  int32_t at, tensor; /* position that makes it; tensor id, -1 for the workspace of that position */
  uint64_t offset, bytes;
};

struct neap_plan {
  struct region region; /* owns the strings and arrays */
  const char *graph, *planner;
  int32_t length, instance_count;
  const int32_t *schedule;
  const struct placed *instances; /* by position, outputs in their order, workspace (when not 0 bytes) last */
  uint64_t resident_bytes, live_peak_bytes, arena_bytes;
  double cost, base_cost;
  /* Facts about the planning. A plan that was read has zeros, except for the repeats. */
  uint64_t lower_bound_bytes;
  double cost_lower_bound; /* of plans within the budget that was asked for */
  double seconds;
  int64_t recomputed;
  bool proven_optimal;
};

/* Makes a deep copy of `draft`, without its region. The caller frees it with neap_plan_free. */
neap_status plan_create(const struct neap_plan *draft, struct neap_plan **out);

/* Counts the positions of a schedule whose node also runs earlier. Sorts the ids that it is given. */
int64_t plan_count_repeats(int32_t *ids, int32_t length);

/* Returns the bytes that training by the plan needs: resident bytes and the arena. */
static inline uint64_t plan_bytes(const struct neap_plan *plan) {
  return plan->resident_bytes + plan->arena_bytes;
}

static inline void swap_plans(struct neap_plan **a, struct neap_plan **b) {
  struct neap_plan *swap = *a;
  *a = *b;
  *b = swap;
}

/* Fails with NEAP_OVER_BUDGET and a message. `planner`: NULL is "auto"; `smallest`: the budget that can be
 * met, 0 if none can. */
neap_status plan_over_budget(const char *planner, uint64_t budget, uint64_t smallest);

#endif
