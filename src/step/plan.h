/* A plan: a schedule with an offset for every instance. Plain data; made in src/plan/make.c, read and
 * written in plan_file.c, judged in check.c. */
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
  /* What is known of how it was made; zeros, but for the repeats, in a plan that was read. */
  uint64_t lower_bound_bytes;
  double cost_lower_bound; /* of plans within the budget that was asked for */
  double seconds;
  int64_t recomputed;
  bool proven_optimal;
};

/* A deep copy of `draft` (its region is ignored) for the caller to free with neap_plan_free. */
neap_status plan_create(const struct neap_plan *draft, struct neap_plan **out);

/* Positions of a schedule whose node stands earlier in it too. Sorts the copy that it is given. */
int64_t plan_count_repeats(int32_t *ids, int32_t length);

/* What training by the plan takes: resident bytes and the arena. */
static inline uint64_t plan_bytes(const struct neap_plan *plan) {
  return plan->resident_bytes + plan->arena_bytes;
}

static inline void swap_plans(struct neap_plan **a, struct neap_plan **b) {
  struct neap_plan *swap = *a;
  *a = *b;
  *b = swap;
}

/* NEAP_OVER_BUDGET, saying why. `planner`: NULL is "auto"; `smallest`: the budget that can be met, 0: none.
 */
neap_status plan_over_budget(const char *planner, uint64_t budget, uint64_t smallest);

#endif
