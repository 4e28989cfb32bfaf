#include "papers/contest.h"

#include <math.h>
#include <string.h>

#include "search/clean.h"
#include "step/overlap.h"
#include "step/simulate.h"

neap_status contest_create(const neap_step *step, uint64_t budget, const struct planner_options *options,
                           struct schedule *out, struct contest *contest) {
  *contest = (struct contest){
      .budget = budget, .effort = options->effort, .out = out, .peak = UINT64_MAX, .cost = INFINITY};
  return simulator_create(step, &contest->simulator);
}

void contest_free(struct contest *contest) { simulator_free(&contest->simulator); }

bool contest_is_met(const struct contest *contest) {
  return contest->peak <= contest->budget && contest->cost < INFINITY;
}

static bool wins(const struct contest *c, const struct simulation *score) {
  const bool met = contest_is_met(c), fits = score->peak_bytes <= c->budget;
  if (met != fits) return fits;
  return met && c->effort != EFFORT_QUICK ? score->cost < c->cost : score->peak_bytes < c->peak;
}

static neap_status keep_if_better(struct contest *c, const struct schedule *candidate,
                                  const struct simulation *score) {
  if (!wins(c, score)) return NEAP_OK;
  TRY(schedule_copy(c->out, candidate->nodes.data, candidate->nodes.count));
  c->peak = score->peak_bytes;
  c->cost = score->cost;
  return NEAP_OK;
}

/* Moves jobs of a step's lane apart from what waits for them, as far as the budget allows. */
static neap_status spread(struct contest *c, struct schedule *schedule, struct simulation *score) {
  const neap_step *step = c->simulator.step;
  int32_t moves;
  if (!step->has_lane) return NEAP_OK;
  TRY(schedule_overlap(step, NULL, c->budget - step->resident_bytes, schedule, &moves));
  return simulator_run(&c->simulator, schedule->nodes.data, (int32_t)schedule->nodes.count, score);
}

neap_status contest_offer(struct contest *c, const struct schedule *candidate) {
  struct simulation score;
  const int32_t *nodes = candidate->nodes.data, length = (int32_t)candidate->nodes.count;
  neap_status status = simulator_run(&c->simulator, nodes, length, &score);
  if (status == NEAP_INVALID_PLAN) return NEAP_OK;
  if (status != NEAP_OK) return status;
  if (c->effort == EFFORT_QUICK || score.peak_bytes > c->budget) return keep_if_better(c, candidate, &score);
  struct schedule cleaned = {0};
  status = schedule_clean(&c->simulator, c->budget, nodes, length, &cleaned, &score);
  if (status == NEAP_OK) status = spread(c, &cleaned, &score);
  if (status == NEAP_OK) status = keep_if_better(c, &cleaned, &score);
  schedule_free(&cleaned);
  return status;
}

neap_status contest_result(const struct contest *c, const char *planner) {
  RETURN_IF(!contest_is_met(c), NEAP_OVER_BUDGET, "%s: found no schedule within %llu bytes", planner,
            (unsigned long long)c->budget);
  return NEAP_OK;
}
