/* The search for one planner's plan: see plan_row.h. */
#include "plan/plan_row.h"

#include <limits.h>
#include <math.h>

#include "base/clock.h"
#include "plan/repair.h"
#include "step/planner.h"
#include "step/simulate.h"
#include "step/tuning.h"

/* ---- One budget ---- */

/* The search of one planner for a plan within a budget. */
struct way {
  const neap_step *step;
  const struct planner *planner;
  const struct planner_options *options;
  const struct neap_plan *best; /* of other rows: what does not cost less is no plan; NULL: none */
  uint64_t budget, limit;       /* the planner gets the limit */
  double deadline;              /* of its search */
  struct demand demand;
  struct schedule last;    /* that the planner found; empty: none yet */
  double cost;             /* of the schedule that was found last */
  double enough;           /* a cost that is worth no other round */
  struct neap_plan *found; /* the cheapest within the budget; NULL: none */
  struct neap_plan *near;  /* the first that nearly fits and was not repaired; NULL: none */
  bool is_near;            /* the limit is little below the one of that, or to begin anew takes seconds */
  bool goes_back;          /* to that one: with less none exists */
};

/* Returns true if there is time for more than a first layout. */
static bool is_careful(const struct way *w) {
  return w->planner->loose && w->options->effort == EFFORT_USUAL;
}

static bool keeps(const struct way *w, const struct neap_plan *plan) { return plan_bytes(plan) <= w->budget; }

/* Returns the plan that a new one must be cheaper than; NULL: none exists. */
static const struct neap_plan *best_of(const struct way *w) { return w->found != NULL ? w->found : w->best; }

/* Lays out the schedule that the planner finds within the limit. Makes no plan and no layout if the schedule
 * is not cheaper than the best plan. */
static neap_status plan_below(struct way *w, struct neap_plan **out) {
  const struct neap_plan *best = best_of(w);
  struct schedule schedule = {0}, runner_up = {0};
  struct simulation score = {0};
  struct planner_options with_second = *w->options;
  with_second.runner_up = &runner_up;
  with_second.deadline = w->deadline;
  if (w->is_near) with_second.near = &w->last;
  neap_status status = w->planner->plan(w->step, w->limit, &with_second, &schedule);
  if (status == NEAP_OK)
    status = simulate(w->step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score);
  w->cost = score.cost;
  if (status == NEAP_OK && (best == NULL || score.cost < best->cost))
    status = w->planner->loose && w->demand.capacity > 0
                 ? plan_by_repair(w->step, &schedule, &runner_up, &w->demand, out)
                 : plan_of_schedule(w->step, &schedule, &w->demand, out);
  if (status == NEAP_OK) swap_schedules(&w->last, &schedule);
  schedule_free(&schedule);
  schedule_free(&runner_up);
  return status;
}

/* Returns by how much less the planner gets in the next round: by the bytes that the layout lost, and more
 * each time (`again`), as another schedule loses elsewhere. By a little if a good deal was lost, as another
 * may lose nothing, or if the layout only fitted at a high price. */
static uint64_t cut_after(const struct way *w, const struct neap_plan *plan, int again) {
  const int times = again < CUT_OFTEN ? again : CUT_OFTEN;
  const uint64_t capacity = w->demand.capacity, needed = plan->arena_bytes;
  const uint64_t lost = needed > capacity ? needed - capacity : 0;
  const uint64_t least = (capacity / CUT_LEAST << (2 * times)) + 1,
                 little = (capacity / CUT_LITTLE << times) + 1;
  const uint64_t cut = lost > least ? lost : least;
  const bool another_may_fit = is_careful(w) && cut > little && cut < capacity / CUT_MUCH;
  return keeps(w, plan) || another_may_fit ? little : cut;
}

/* Lowers the limit for the next round. Returns false if nothing would be left. */
static bool lower_limit(struct way *w, uint64_t cut) {
  if (w->limit < cut + w->step->resident_bytes) return false;
  w->limit -= cut;
  return true;
}

/* The outcome of a round. */
enum round_outcome {
  NOTHING, /* no schedule, or none that costs less than what there is */
  NEARLY,  /* a layout that is a little too high, and was not repaired */
  MISSED,  /* one that is too high */
  KEPT     /* a plan within the budget */
};

/* Repairs the plan that nearly fits. */
static neap_status plan_near(struct way *w, struct neap_plan **out) {
  w->cost = w->near->cost;
  TRY(plan_repair_on(w->step, &w->demand, &w->near));
  *out = w->near;
  w->near = NULL;
  w->goes_back = false;
  return NEAP_OK;
}

/* Makes a plan below the limit, or goes back to the one that nearly fits. `missed`: the number of rounds that
 * missed. `*cut`: by how much less the next round should get. */
static neap_status run_round(struct way *w, int missed, enum round_outcome *outcome, uint64_t *cut) {
  struct neap_plan *plan = NULL;
  const neap_status status = w->goes_back ? plan_near(w, &plan) : plan_below(w, &plan);
  *outcome = NOTHING;
  if (status != NEAP_OK || plan == NULL) return status;
  const bool nearly = w->demand.goal == GOAL_NEAR && nearly_fits(plan->arena_bytes, w->demand.capacity);
  *outcome = keeps(w, plan) ? KEPT : nearly ? NEARLY : MISSED;
  *cut = cut_after(w, plan, missed);
  if (is_careful(w) && w->limit == w->budget && w->step->node_count <= ROUND_DEAR_NODES)
    w->enough = w->cost + ROUND_DEAR * w->step->base_cost;
  if (*outcome == NEARLY && w->near == NULL) swap_plans(&w->near, &plan);
  if (*outcome == KEPT && (w->found == NULL || plan->cost < w->found->cost)) swap_plans(&w->found, &plan);
  neap_plan_free(plan);
  return NEAP_OK;
}

/* Lowers the limit round by round until a plan keeps the budget and is not expensive; an expensive one gets
 * one round more. If a layout nearly fits, rounds with less come before its repair; if they lead to nothing,
 * the plan found within the budget is repaired. A plan that was found is kept even if a later round fails. */
static neap_status run_rounds(struct way *w) {
  const bool loose = w->planner->loose;
  int left = loose && !is_careful(w) ? ROUNDS_REPAIRED : ROUNDS_MOST,
      unrepaired = is_careful(w) ? ROUNDS_UNREPAIRED : 0, missed = 0;
  enum round_outcome outcome = NOTHING;
  while (left > 0) {
    const bool none_yet = w->found == NULL, may_repair = outcome == NEARLY;
    uint64_t cut = 0;
    w->demand.goal = unrepaired > 0 ? GOAL_NEAR : GOAL_TIGHT;
    const neap_status status = run_round(w, missed, &outcome, &cut);
    if (status != NEAP_OK && status != NEAP_OVER_BUDGET) return status;
    if (outcome == NOTHING && !may_repair) return status;
    if (outcome == NOTHING) {
      w->limit = w->budget;
      w->goes_back = true;
      unrepaired = 0;
      continue;
    }
    if (w->found != NULL && (w->found->cost <= w->enough || clock_is_past(w->options->deadline)))
      return NEAP_OK;
    if (w->best != NULL && loose && outcome != NEARLY) break;
    if (!lower_limit(w, cut)) break;
    w->is_near = w->last.nodes.count > 0 &&
                 (w->step->node_count > LARGE_STEP || cut <= w->demand.capacity / ROUND_NEAR_SHARE);
    unrepaired = outcome == NEARLY ? unrepaired - 1 : 0;
    missed += outcome == MISSED;
    if (outcome == MISSED) left--;
    if (outcome == KEPT) left = none_yet ? 1 : 0;
  }
  return neap_fail(NEAP_OVER_BUDGET, "%s: found no layout within %llu bytes", w->planner->name,
                   (unsigned long long)w->budget);
}

/* Lets the planner go on for most of the time that is left. The rest is for the layout of its schedule and,
 * if that costs more than the schedule did, for the same with less memory. */
static neap_status run_longer(struct way *w) {
  const double end = w->options->deadline;
  for (int round = 0;; round++) {
    struct neap_plan *plan = NULL;
    const double left = end - clock_seconds();
    if (left < LONG_MOMENT) return NEAP_OK;
    w->deadline = end - left * (1 - LONG_SHARE);
    const neap_status status = plan_below(w, &plan);
    if (status == NEAP_OVER_BUDGET || (status == NEAP_OK && plan == NULL)) return NEAP_OK;
    if (status != NEAP_OK) return status;
    const uint64_t cut = cut_after(w, plan, round);
    const bool kept = keeps(w, plan), suits = kept && plan->cost <= w->cost * (1 + 1e-9);
    if (kept && (best_of(w) == NULL || plan->cost < best_of(w)->cost)) swap_plans(&w->found, &plan);
    neap_plan_free(plan);
    if (suits || !lower_limit(w, cut)) return NEAP_OK;
  }
}

neap_status plan_row(const neap_step *step, uint64_t budget, const struct planner *planner,
                     const struct planner_options *options, const struct neap_plan *best,
                     struct neap_plan **out) {
  struct way way = {.step = step,
                    .planner = planner,
                    .options = options,
                    .best = best,
                    .budget = budget,
                    .limit = budget,
                    .deadline = options->deadline,
                    .enough = INFINITY,
                    .demand = {.planner = planner->name,
                               .capacity = budget == UINT64_MAX ? 0 : budget - step->resident_bytes,
                               .goal = GOAL_TIGHT,
                               .effort = options->effort,
                               .deadline = options->deadline}};
  const neap_status status = options->effort == EFFORT_LONG ? run_longer(&way) : run_rounds(&way);
  const bool stands = status == NEAP_OK || (status == NEAP_OVER_BUDGET && way.found != NULL);
  neap_plan_free(way.near);
  schedule_free(&way.last);
  if (stands)
    *out = way.found;
  else
    neap_plan_free(way.found);
  return stands ? NEAP_OK : status;
}

/* ---- The least plan of a planner ---- */

const struct planner_options quick_look = {.effort = EFFORT_QUICK};

/* Replaces `*plan` by a plan with a smaller arena, if it finds one. */
static neap_status shrink(const neap_step *step, const struct schedule *schedule, uint64_t capacity,
                          struct neap_plan **plan) {
  const struct demand demand = {.planner = (*plan)->planner, .capacity = capacity, .effort = EFFORT_QUICK};
  struct neap_plan *smaller = NULL;
  TRY(plan_by_repair(step, schedule, NULL, &demand, &smaller));
  if (smaller->arena_bytes < (*plan)->arena_bytes) swap_plans(plan, &smaller);
  neap_plan_free(smaller);
  return NEAP_OK;
}

/* Makes the planner's least plan, then looks for a smaller arena for its schedule or one near it. Halves the
 * gap between the arena and the live bytes, at most SHRINK_TRIES times. */
static neap_status ask_for_least(const neap_step *step, const struct planner *planner,
                                 const struct planner_options *options, struct neap_plan **out) {
  struct schedule schedule = {0};
  struct demand demand = {.planner = planner->name, .goal = GOAL_TIGHT, .layout = LAYOUT_LARGEST};
  struct simulation score = {0};
  struct neap_plan *plan = NULL;
  neap_status status = planner->least(step, options, &schedule);
  if (status == NEAP_OK) status = simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score);
  uint64_t low = demand.capacity = status == NEAP_OK ? score.peak_bytes - step->resident_bytes : 0;
  if (status == NEAP_OK) status = plan_of_schedule(step, &schedule, &demand, &plan);
  for (int i = 0; status == NEAP_OK && i < (options->brief ? 0 : SHRINK_TRIES) &&
                  plan->arena_bytes > low + low / SHRINK_SHARE;
       i++) {
    const uint64_t middle = low + (plan->arena_bytes - low) / 2;
    status = shrink(step, &schedule, middle, &plan);
    if (status == NEAP_OK && plan->arena_bytes > middle) low = middle;
  }
  schedule_free(&schedule);
  if (status == NEAP_OK)
    *out = plan;
  else
    neap_plan_free(plan);
  return status;
}

neap_status plan_row_least(const neap_step *step, const struct planner *planner, uint64_t bound,
                           const struct planner_options *options, struct neap_plan **out) {
  struct neap_plan *plan = NULL;
  if (planner->least != NULL) return ask_for_least(step, planner, options, out);
  TRY(plan_row(step, UINT64_MAX, planner, &quick_look, NULL, &plan));
  uint64_t missed = bound - 1, cut = 1;
  int left = step->node_count <= TINY_STEP ? INT_MAX : NARROW_PLANS;
  for (bool narrow = false; left > 0; left -= narrow) {
    const uint64_t met = plan_bytes(plan);
    if (met <= missed + 1) break;
    const double below = (double)(missed - step->resident_bytes + 1),
                 above = (double)(met - step->resident_bytes);
    narrow = narrow || above < below * NARROW_RATIO;
    /* The middle in ratio: what keeps everything is far above the least. */
    uint64_t tried =
        narrow ? met - (cut < met ? cut : met) : step->resident_bytes + (uint64_t)sqrt(below * above);
    if (tried <= missed || tried >= met) tried = met - 1, cut = 1;
    struct neap_plan *lower = NULL;
    const neap_status status = plan_row(step, tried, planner, &quick_look, NULL, &lower);
    if (status == NEAP_OVER_BUDGET && tried == met - 1) break;
    if (status == NEAP_OVER_BUDGET) {
      missed = tried;
      cut = 1;
      continue;
    }
    cut *= 2;
    neap_plan_free(plan);
    plan = lower;
    if (status != NEAP_OK) return status;
  }
  *out = plan;
  return NEAP_OK;
}
