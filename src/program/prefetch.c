#include "program/prefetch.h"

#include "plan/repair.h"
#include "step/overlap.h"

static neap_status lay_out(const struct neap_step *step, const struct schedule *schedule, const char *planner,
                           uint64_t capacity, struct neap_plan **out) {
  const struct demand demand = {.planner = planner, .capacity = capacity, .goal = GOAL_FIT};
  return plan_of_schedule(step, schedule, &demand, out);
}

static void take(struct neap_plan **plan, struct neap_plan **moved) {
  (*moved)->lower_bound_bytes = (*plan)->lower_bound_bytes;
  (*moved)->cost_lower_bound = (*plan)->cost_lower_bound;
  (*moved)->seconds = (*plan)->seconds;
  (*moved)->proven_optimal = (*plan)->proven_optimal;
  swap_plans(plan, moved);
}

/* Returns true unless jobs of the step's lane now wait longer for each other. */
static bool costs_no_more(const struct neap_plan *moved, const struct neap_plan *plan) {
  return moved->cost <= plan->cost * (1 + 1e-9); /* sums of the same costs in another order differ by less */
}

/* Moves all jobs inside `limit`, a part of the capacity. `*done`: nothing is left to try. */
static neap_status try_within(const struct neap_step *step, const bool *jobs, uint64_t capacity,
                              uint64_t limit, struct neap_plan **plan, bool *done) {
  struct schedule schedule = {0};
  struct neap_plan *moved = NULL;
  int32_t moves = 0;
  neap_status status = schedule_copy(&schedule, (*plan)->schedule, (size_t)(*plan)->length);
  if (status == NEAP_OK) status = schedule_overlap(step, jobs, limit, &schedule, &moves);
  if (status == NEAP_OK && moves > 0) status = lay_out(step, &schedule, (*plan)->planner, capacity, &moved);
  *done = moves == 0 || (moved != NULL && moved->arena_bytes <= capacity && costs_no_more(moved, *plan));
  if (status == NEAP_OK && moved != NULL && *done) take(plan, &moved);
  neap_plan_free(moved);
  schedule_free(&schedule);
  return status;
}

neap_status prefetch(const struct lowered *lowered, uint64_t budget, struct neap_plan **plan) {
  /* Live bytes near the capacity may have no layout; then fewer jobs are moved. */
  static const double shares[] = {1, 31.0 / 32, 7.0 / 8, 3.0 / 4};
  const struct neap_step *step = lowered->step;
  bool any = step->has_lane, done = false, *jobs = calloc((size_t)step->node_count + 1, sizeof *jobs);
  neap_status status = jobs == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a plan") : NEAP_OK;
  for (int32_t v = 0; jobs != NULL && v < step->node_count; v++)
    any = (jobs[v] = is_lane_job(&lowered->graph->nodes.data[v])) || any;
  const uint64_t capacity = budget < (*plan)->resident_bytes ? 0 : budget - (*plan)->resident_bytes;
  for (size_t i = 0; status == NEAP_OK && any && capacity > 0 && !done && i < sizeof shares / sizeof *shares;
       i++)
    status = try_within(step, jobs, capacity, (uint64_t)(shares[i] * (double)capacity), plan, &done);
  free(jobs);
  return status;
}
