/* Neap's own planner: searches several schedules in parallel (planning.c), in two orders of the step if one
 * is leaner; near the least memory, starts from the way down to it (docs/design/planning.md). */
#include "search/plan_neap.h"

#include <math.h>

#include "base/clock.h"
#include "search/neap_least.h"
#include "search/node_order.h"
#include "search/pebbling.h"
#include "search/planning.h"
#include "step/lower_bound.h"
#include "step/tuning.h"

/* Gives a schedule of the way down to the least: the cheapest that keeps the limit (bytes of values), or the
 * least. The way depends on the step alone. It is kept, if the caller wants that, in the order that is
 * planned in. */
static neap_status give_rung(const neap_step *step, const struct planner_options *options,
                             const uint64_t *limit, struct schedule *out) {
  struct descent own = {0}, *descent = options->descent != NULL ? options->descent : &own;
  neap_status status = descent->rungs.count == 0 ? find_descent(step, options->least_work, descent) : NEAP_OK;
  const struct rung *least = descent_least(descent),
                    *rung = limit == NULL ? least : descent_within(descent, step->resident_bytes + *limit);
  if (status == NEAP_OK && rung == NULL)
    status = neap_fail(NEAP_OVER_BUDGET, "neap: the least peak it finds is %llu bytes",
                       (unsigned long long)least->peak_bytes);
  if (status == NEAP_OK) status = schedule_copy(out, rung->schedule.nodes.data, rung->schedule.nodes.count);
  descent_free(&own);
  return status;
}

/* Adds a start from the way down if no other start fits the limit: any budget that keeps the least plan is
 * met. */
static neap_status add_rung(struct planning *p) {
  struct schedule rung = {0};
  neap_status status = give_rung(p->step, p->options, &p->limit, &rung);
  if (status == NEAP_OK) status = planning_add(p, &rung, false);
  schedule_free(&rung);
  return status;
}

/* Searches a small step exhaustively, for some hundredths of a second. */
static neap_status plan_exactly(const struct planning *p, struct schedule *out, bool *found) {
  int64_t work = PEBBLING_WORK;
  *found = false;
  return p->step->node_count > PEBBLING_NODES ? NEAP_OK
                                              : pebble_cheapest(p->step, p->limit, &work, out, found);
}

/* Plans in the step's order. `falls_back`: if no start fits the limit, starts from a schedule of the way down
 * to the least (add_rung); otherwise this fails. */
static neap_status plan_in_order(struct planning *p, bool falls_back, struct outcome *out) {
  *out = (struct outcome){.cost = INFINITY};
  neap_status status = planning_start(p);
  if (status == NEAP_OK && !planning_fits(p))
    status = falls_back ? add_rung(p)
                        : neap_fail(NEAP_OVER_BUDGET, "neap: found no schedule within %llu bytes of values",
                                    (unsigned long long)p->limit);
  if (status == NEAP_OK) status = planning_improve(p, out);
  planning_free(p);
  return status;
}

/* Plans in the leaner order, in half of the time that is left. Finding nothing is not a failure. */
static neap_status plan_leaner(struct planning *p, struct outcome *out) {
  struct planner_options options = *p->options;
  if (options.deadline > 0) options.deadline -= (options.deadline - clock_seconds()) / 2;
  struct planning lean = planning_of(p->leaner->step, p->limit, &options);
  const neap_status status = plan_in_order(&lean, false, out);
  reordered_step_rename(p->leaner, &out->best);
  reordered_step_rename(p->leaner, &out->runner_up);
  p->told = lean.told;
  return status == NEAP_OVER_BUDGET ? NEAP_OK : status;
}

/* Takes the cheaper plan of both orders, if one is leaner. The given order is not tried if the leaner plan
 * cannot be beaten, or if a quick look has found one. */
static neap_status plan_in_orders(struct planning *p, struct outcome *out) {
  if (p->leaner == NULL) return plan_in_order(p, true, out);
  TRY(plan_leaner(p, out));
  const bool found = out->cost < INFINITY;
  if (out->cost <= p->step->base_cost || (found && p->options->effort == EFFORT_QUICK)) return NEAP_OK;
  struct outcome given;
  neap_status status = plan_in_order(p, !found, &given);
  if (given.cost < out->cost) {
    const struct outcome swap = *out;
    *out = given;
    given = swap;
  }
  outcome_free(&given);
  return status == NEAP_OVER_BUDGET && found ? NEAP_OK : status;
}

/* If recomputation reaches PLAN_FROM_BELOW_COST, also starts from the way to the least, improved within the
 * limit. Searches that begin elsewhere can end far above the cost of a little less memory. */
static neap_status plan_from_below(const struct planning *p, struct outcome *out) {
  if (p->options->effort == EFFORT_QUICK || p->step->node_count > PLAN_FROM_BELOW_NODES ||
      out->cost <= PLAN_FROM_BELOW_COST * p->step->base_cost || planning_is_late(p))
    return NEAP_OK;
  struct planning below = planning_of(p->step, p->limit, p->options);
  below.told = p->told;
  struct outcome other = {.cost = INFINITY};
  neap_status status = add_rung(&below);
  if (status == NEAP_OK) status = planning_improve(&below, &other);
  planning_free(&below);
  if (status == NEAP_OK && other.cost < out->cost) {
    const struct outcome swap = *out;
    *out = other;
    other = swap;
  }
  outcome_free(&other);
  return status == NEAP_OVER_BUDGET ? NEAP_OK : status;
}

/* Plans from a schedule that needs little more, if that leads to the limit. */
static neap_status plan_from_near(struct planning *p, struct outcome *out) {
  neap_status status = planning_go_on(p, p->options->near);
  if (status == NEAP_OK && planning_fits(p)) status = planning_improve(p, out);
  planning_free(p);
  return status;
}

static neap_status plan_afresh(struct planning *p, struct outcome *out) {
  struct reordered_step leaner;
  neap_status status = leaner_step_create(p->step, &leaner);
  p->leaner = leaner.step != NULL ? &leaner : NULL;
  if (status == NEAP_OK) status = plan_in_orders(p, out);
  if (status == NEAP_OK) status = plan_from_below(p, out);
  reordered_step_free(&leaner);
  return status;
}

static neap_status plan_step(const neap_step *step, uint64_t limit, const struct planner_options *options,
                             struct schedule *out) {
  struct planning p = planning_of(step, limit, options), near = p;
  bool found;
  TRY(plan_exactly(&p, out, &found));
  if (found) return NEAP_OK;
  struct outcome outcome = {.cost = INFINITY};
  neap_status status = options->near != NULL ? plan_from_near(&near, &outcome) : NEAP_OK;
  if (status == NEAP_OK && outcome.cost == INFINITY) status = plan_afresh(&p, &outcome);
  if (status == NEAP_OK) swap_schedules(out, &outcome.best);
  if (status == NEAP_OK && options->runner_up != NULL) swap_schedules(options->runner_up, &outcome.runner_up);
  outcome_free(&outcome);
  return status;
}

/* A step with more or larger values than can be searched is not for this planner: NEAP_OVER_BUDGET. */
static neap_status take(neap_status status) {
  return status == NEAP_TOO_LARGE ? neap_fail(NEAP_OVER_BUDGET, "%s", neap_error_message()) : status;
}

/* Plans the step in mirrored order if that is clearly better than the given order. */
neap_status plan_neap(const neap_step *step, uint64_t budget, const struct planner_options *options,
                      struct schedule *out) {
  RETURN_IF(budget < plan_lower_bound(step), NEAP_OVER_BUDGET,
            "neap: every schedule needs more than %llu bytes", (unsigned long long)budget);
  const uint64_t limit = budget - step->resident_bytes;
  struct planner_options own = *options;
  struct reordered_step mirrored;
  struct schedule near = {0};
  neap_status status = mirrored_step_create(step, &mirrored);
  if (status == NEAP_OK && own.near != NULL && mirrored.step != NULL) {
    status = reordered_step_take(&mirrored, own.near, &near);
    own.near = &near;
  }
  if (status == NEAP_OK) status = plan_step(mirrored.step != NULL ? mirrored.step : step, limit, &own, out);
  schedule_free(&near);
  if (mirrored.step != NULL) {
    reordered_step_rename(&mirrored, out);
    if (options->runner_up != NULL) reordered_step_rename(&mirrored, options->runner_up);
  }
  reordered_step_free(&mirrored);
  return take(status);
}

neap_status plan_neap_least(const neap_step *step, const struct planner_options *options,
                            struct schedule *out) {
  struct reordered_step mirrored;
  neap_status status = mirrored_step_create(step, &mirrored);
  if (status == NEAP_OK) status = give_rung(mirrored.step != NULL ? mirrored.step : step, options, NULL, out);
  if (mirrored.step != NULL) reordered_step_rename(&mirrored, out);
  reordered_step_free(&mirrored);
  return take(status);
}
