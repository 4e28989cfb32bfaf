#include "search/plan_restoring.h"

#include <math.h>

#include "base/parallel.h"
#include "base/stop.h"
#include "search/evict.h"
#include "search/keep_all.h"
#include "search/planning.h"
#include "step/lower_bound.h"
#include "step/overlap.h"
#include "step/simulate.h"
#include "step/tuning.h"

/* The ways to search: at a factor of the costs of transfers, in the limit less this number of the largest
 * values that may be restored. These bytes let jobs begin before their results are read. */
static const struct way {
  double factor;
  int spare;
} ways[] = {{0.25, 0}, {1, 0}, {0.6, 0}, {0.1, 1}, {0.01, 1}, {0.01, 2}, {0.1, 2}, {0.3, 1}};
enum { WAYS = sizeof ways / sizeof *ways };

/* A search in one of these ways. */
struct attempt {
  struct schedule best;
  double cost; /* with the lane; INFINITY: none is within the limit */
};

/* Adds candidates: from the walk that drops values, from a schedule that needs little more, and from keeping
 * everything. */
static neap_status add_starts(struct planning *p, const struct planner_options *options) {
  const struct planner_options quick = {.effort = EFFORT_QUICK};
  struct schedule walked = {0}, whole = {0};
  neap_status status =
      plan_evict(p->step, p->step->resident_bytes + p->limit,
                 options->effort == EFFORT_QUICK ? &quick : &(struct planner_options){0}, &walked);
  if (status == NEAP_OK) status = planning_add(p, &walked, false);
  if (status == NEAP_OVER_BUDGET) status = NEAP_OK;
  if (status == NEAP_OK && options->near != NULL) status = planning_add(p, options->near, false);
  if (status == NEAP_OK && !(options->effort == EFFORT_QUICK && planning_fits(p))) {
    status = plan_keep_all(p->step, UINT64_MAX, &quick, &whole);
    if (status == NEAP_OK) status = planning_add(p, &whole, true);
  }
  schedule_free(&walked);
  schedule_free(&whole);
  return status;
}

/* Searches in a step without a lane. */
static neap_status search_without_lane(const neap_step *step, uint64_t limit,
                                       const struct planner_options *options, struct outcome *out) {
  struct planner_options own = *options;
  own.runner_up = NULL;
  struct planning p = planning_of(step, limit, &own);
  p.work /= RESTORING_SHARE;
  neap_status status = add_starts(&p, &own);
  if (status == NEAP_OK) status = planning_improve(&p, out);
  planning_free(&p);
  return status;
}

/* Returns the bytes of the largest outputs that a node restores. */
static uint64_t largest_restored(const neap_step *step) {
  uint64_t most = 0;
  for (int32_t v = step->required_count; v < step->node_count; v++) {
    uint64_t bytes = 0;
    for (int32_t i = 0; step_restores(step, v) && i < step->nodes[v].output_count; i++)
      bytes += step->tensors[step->nodes[v].outputs[i]].bytes;
    most = bytes > most ? bytes : most;
  }
  return most;
}

static neap_status try_way(const neap_step *step, uint64_t limit, struct way way,
                           const struct planner_options *options, struct attempt *out) {
  neap_step *without = NULL;
  struct outcome outcome = {.cost = INFINITY};
  struct simulation score;
  int32_t moves;
  const uint64_t spare = (uint64_t)way.spare * largest_restored(step),
                 within = limit - (spare < limit ? spare : limit);
  neap_status status = step_create_without_lane(step, way.factor, &without);
  if (status == NEAP_OK) status = search_without_lane(without, within, options, &outcome);
  if (status == NEAP_OK) status = schedule_overlap(step, NULL, limit, &outcome.best, &moves);
  if (status == NEAP_OK)
    status = simulate(step, outcome.best.nodes.data, (int32_t)outcome.best.nodes.count, &score);
  if (status == NEAP_OK && score.peak_bytes <= step->resident_bytes + limit) {
    out->cost = score.cost;
    swap_schedules(&out->best, &outcome.best);
  }
  outcome_free(&outcome);
  neap_step_free(without);
  return status;
}

neap_status plan_restoring(const neap_step *step, uint64_t budget, const struct planner_options *options,
                           struct schedule *out) {
  RETURN_IF(budget < plan_lower_bound(step), NEAP_OVER_BUDGET,
            "neap: every schedule needs more than %llu bytes", (unsigned long long)budget);
  const bool quick = options->effort == EFFORT_QUICK;
  const uint64_t limit = budget - step->resident_bytes;
  struct attempt attempts[WAYS] = {{.cost = INFINITY}};
  struct ending ended[WAYS] = {{NEAP_OK, ""}};
  double best = INFINITY;
  for (int i = 0; i < WAYS; i++) attempts[i].cost = INFINITY;
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request) num_threads(quick ? 1 : threads_for(WAYS))
  for (int i = 0; i < WAYS; i++)
    if (!quick || i == 0) ending_keep(&ended[i], try_way(step, limit, ways[i], options, &attempts[i]));
  for (int i = 0; i < WAYS; i++) {
    if (attempts[i].cost < best) {
      best = attempts[i].cost;
      swap_schedules(out, &attempts[i].best);
    }
    schedule_free(&attempts[i].best);
  }
  TRY(status_of_tasks(ended, WAYS));
  RETURN_IF(best == INFINITY, NEAP_OVER_BUDGET, "neap: found no schedule within %llu bytes",
            (unsigned long long)budget);
  return NEAP_OK;
}
