/* From a step and a budget to a plan: planners, the simulator and the layout together. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/region.h"
#include "layout/repair.h"
#include "plan/bounds.h"
#include "plan/descent.h"
#include "plan/planners.h"

/* ---- One budget ---- */

/* One row on its way to a budget. */
struct way {
  const neap_step *step;
  const struct planner *planner;
  const struct planner_options *options;
  const struct neap_plan *best; /* of other rows: what does not cost less is no plan; NULL: none */
  uint64_t budget, limit;       /* the limit is what the planner gets */
  double deadline;              /* of its search */
  struct demand demand;
  bool careful;            /* there is time for more than a first layout */
  double cost;             /* of the schedule that was found last */
  struct neap_plan *found; /* the cheapest within the budget; NULL: none */
};

static bool keeps(const struct way *w, const struct neap_plan *plan) { return plan_bytes(plan) <= w->budget; }

/* What a plan must cost less than; NULL: there is none. */
static const struct neap_plan *best_of(const struct way *w) { return w->found != NULL ? w->found : w->best; }

/* What the planner finds within the limit, laid out. No plan, and no layout, where the schedule does not cost
 * less than what there is. */
static neap_status plan_below(struct way *w, struct neap_plan **out) {
  const struct neap_plan *best = best_of(w);
  struct schedule schedule = {0}, runner_up = {0};
  struct simulation score = {0};
  struct planner_options with_second = *w->options;
  with_second.runner_up = &runner_up;
  with_second.deadline = w->deadline;
  neap_status status = w->planner->plan(w->step, w->limit, &with_second, &schedule);
  if (status == NEAP_OK)
    status = simulate(w->step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score);
  w->cost = score.cost;
  if (status == NEAP_OK && (best == NULL || score.cost < best->cost))
    status = w->planner->loose && w->demand.capacity > 0
                 ? plan_by_repair(w->step, &schedule, &runner_up, &w->demand, out)
                 : plan_of_schedule(w->step, &schedule, &w->demand, out);
  schedule_free(&schedule);
  schedule_free(&runner_up);
  return status;
}

/* By how much less the planner gets after a round: by what the layout lost, and more each time, as another
 * schedule loses something else. By a little where a good deal was lost, as another may lose nothing, and
 * where it was made to fit at a high price. */
static uint64_t cut_after(const struct way *w, const struct neap_plan *plan, int round) {
  enum { MUCH = 8, LITTLE = 128, LEAST = 1000 }; /* shares of the capacity */
  const int again = round > 0 ? round : 0;
  const uint64_t capacity = w->demand.capacity, needed = plan->arena_bytes;
  const uint64_t lost = needed > capacity ? needed - capacity : 0;
  const uint64_t least = capacity / LEAST << (2 * again), little = capacity / LITTLE << again;
  const uint64_t cut = lost > least ? lost : least;
  const bool another_may_fit = w->careful && cut > little && cut < capacity / MUCH;
  return keeps(w, plan) || another_may_fit ? little : cut;
}

/* Round by round with less, until a plan keeps the budget and is not dear. What was found stands also where a
 * later round fails. */
static neap_status run_rounds(struct way *w) {
  enum { ROUNDS = 4, REPAIRED = 3, AGAIN = 2, SMALL = 400 }; /* what is repaired needs fewer; nodes */
  static const double dear = 0.03;                           /* of the step */
  const bool loose = w->planner->loose;
  const int rounds = loose && !w->careful ? REPAIRED : ROUNDS;
  double enough = INFINITY; /* a cost that is worth no other round */
  bool skipped = false;     /* a repair */
  for (int round = w->careful ? -AGAIN : 0; round < rounds; round++) {
    struct neap_plan *plan = NULL;
    w->demand.again = round < 0;
    const neap_status status = plan_below(w, &plan);
    const bool nothing = status == NEAP_OVER_BUDGET || (status == NEAP_OK && plan == NULL);
    if (nothing && skipped) {
      w->limit = w->budget;
      round = -1;
      skipped = false;
      continue;
    }
    if (status != NEAP_OK || nothing) return status;
    if (w->careful && w->limit == w->budget && w->step->node_count <= SMALL)
      enough = w->cost + dear * w->step->base_cost;
    const bool kept = keeps(w, plan);
    skipped = !kept && w->demand.again && nearly_fits(plan->arena_bytes, w->demand.capacity);
    if (w->demand.again && !skipped) round = 0; /* the first that was repaired */
    const uint64_t cut = cut_after(w, plan, round);
    if (kept) round = rounds - (w->found == NULL ? 2 : 1); /* once more, if it is dear */
    if (kept && (w->found == NULL || plan->cost < w->found->cost)) swap_plans(&w->found, &plan);
    neap_plan_free(plan);
    if (w->found != NULL && (w->found->cost <= enough || clock_is_past(w->options->deadline))) return NEAP_OK;
    if (w->best != NULL && loose && !skipped) break;
    if (w->limit < cut + w->step->resident_bytes) break;
    w->limit -= cut;
  }
  return neap_fail(NEAP_OVER_BUDGET, "%s: found no layout within %llu bytes", w->planner->name,
                   (unsigned long long)w->budget);
}

/* The planner goes on for most of the time that is left; the rest is for the layout of what it finds and,
 * where that costs more than the schedule did, for the same with less memory. */
static neap_status run_longer(struct way *w) {
  static const double share = 0.7, moment = 0.05;
  const double end = w->options->deadline;
  for (int round = 0;; round++) {
    struct neap_plan *plan = NULL;
    const double left = end - clock_seconds();
    if (left < moment) return NEAP_OK;
    w->deadline = end - left * (1 - share);
    const neap_status status = plan_below(w, &plan);
    if (status == NEAP_OVER_BUDGET || (status == NEAP_OK && plan == NULL)) return NEAP_OK;
    if (status != NEAP_OK) return status;
    const uint64_t cut = cut_after(w, plan, round);
    const bool kept = keeps(w, plan), suits = kept && plan->cost <= w->cost * (1 + 1e-9);
    if (kept && (best_of(w) == NULL || plan->cost < best_of(w)->cost)) swap_plans(&w->found, &plan);
    neap_plan_free(plan);
    if (suits || w->limit < cut + w->step->resident_bytes) return NEAP_OK;
    w->limit -= cut;
  }
}

/* One planner: where the layout needs more than the live bytes and the budget, the planner gets less. A loose
 * one that nearly fits gets less first, which is better searched than a repair; where that leads to nothing,
 * what it finds within the budget is repaired. No plan where that would not cost less than `best`; beside
 * which one repair is enough. */
static neap_status run_planner(const neap_step *step, uint64_t budget, const struct planner *planner,
                               const struct planner_options *options, const struct neap_plan *best,
                               struct neap_plan **out) {
  struct way way = {.step = step,
                    .planner = planner,
                    .options = options,
                    .best = best,
                    .budget = budget,
                    .limit = budget,
                    .deadline = options->deadline,
                    .demand = {.planner = planner->name,
                               .capacity = budget == UINT64_MAX ? 0 : budget - step->resident_bytes,
                               .tight = true,
                               .quick = options->quick,
                               .deadline = options->deadline},
                    .careful = planner->loose && !options->quick && !options->goes_on &&
                               step->node_count <= LARGE_STEP};
  const neap_status status = options->goes_on ? run_longer(&way) : run_rounds(&way);
  const bool stands = status == NEAP_OK || (status == NEAP_OVER_BUDGET && way.found != NULL);
  if (stands)
    *out = way.found;
  else
    neap_plan_free(way.found);
  return stands ? NEAP_OK : status;
}

/* ---- The least that a planner can do ---- */

static const struct planner_options quick_look = {.quick = true};

/* Puts a plan with a smaller arena in the place of `*plan`, where one is found. */
static neap_status shrink(const neap_step *step, const struct schedule *schedule, uint64_t capacity,
                          struct neap_plan **plan) {
  const struct demand demand = {.planner = (*plan)->planner, .capacity = capacity, .quick = true};
  struct neap_plan *smaller = NULL;
  TRY(plan_by_repair(step, schedule, NULL, &demand, &smaller));
  if (smaller->arena_bytes < (*plan)->arena_bytes) swap_plans(plan, &smaller);
  neap_plan_free(smaller);
  return NEAP_OK;
}

/* What the row finds, in the smallest arena that it or a schedule near it can be laid out in: halving what is
 * between that and the live bytes. */
static neap_status ask_for_least(const neap_step *step, const struct planner *planner,
                                 const struct planner_options *options, struct neap_plan **out) {
  enum { TRIES = 4, SHARE = 100 }; /* of the live bytes, that are not worth more */
  struct schedule schedule = {0};
  struct demand demand = {.planner = planner->name, .tight = true, .effort = EFFORT_LARGEST};
  struct simulation score = {0};
  struct neap_plan *plan = NULL;
  neap_status status = planner->least(step, 0, options, &schedule);
  if (status == NEAP_OK) status = simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score);
  uint64_t low = demand.capacity = status == NEAP_OK ? score.peak_bytes - step->resident_bytes : 0;
  if (status == NEAP_OK) status = plan_of_schedule(step, &schedule, &demand, &plan);
  for (int i = 0; status == NEAP_OK && i < TRIES && plan->arena_bytes > low + low / SHARE; i++) {
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

/* Nodes. In a tiny step every row that misses a budget is asked for its least, which may fit it; in others
 * that takes too long. */
enum { TINY_STEP = 100 };

/* The plan with the least peak that a planner finds: bisection between the bound that no plan beats and a
 * budget that is met, then down from plan to plan, in cuts that double, until a byte less is not met (but for
 * a tiny step, not for ever: it can be some bytes each time). It is the same whatever budget was asked for.
 */
static neap_status find_least(const neap_step *step, const struct planner *planner, uint64_t bound,
                              const struct planner_options *options, struct neap_plan **out) {
  struct neap_plan *plan = NULL;
  if (planner->least != NULL) return ask_for_least(step, planner, options, out);
  TRY(run_planner(step, UINT64_MAX, planner, &quick_look, NULL, &plan));
  enum { NARROW = 24 }; /* plans */
  uint64_t missed = bound - 1, cut = 1;
  int left = step->node_count <= TINY_STEP ? INT_MAX : NARROW;
  for (bool narrow = false; left > 0; left -= narrow) {
    const uint64_t met = plan_bytes(plan);
    if (met <= missed + 1) break;
    const double below = (double)(missed - step->resident_bytes + 1),
                 above = (double)(met - step->resident_bytes);
    narrow = narrow || above < below * 1.02;
    /* The middle in ratio: what keeps everything is far above the least. */
    uint64_t tried =
        narrow ? met - (cut < met ? cut : met) : step->resident_bytes + (uint64_t)sqrt(below * above);
    if (tried <= missed || tried >= met) tried = met - 1, cut = 1;
    struct neap_plan *lower = NULL;
    const neap_status status = run_planner(step, tried, planner, &quick_look, NULL, &lower);
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

/* ---- Several planners ---- */

struct choice {
  const neap_step *step;
  const char *name;        /* of a row, or "auto" for all */
  uint64_t budget, bound;  /* no schedule has a peak below the bound */
  struct neap_plan *best;  /* the cheapest within the budget */
  struct neap_plan *least; /* the one with the least peak, of those above it */
};

static bool better(const struct neap_plan *a, const struct neap_plan *b, bool by_peak) {
  if (b == NULL) return true;
  return by_peak ? plan_bytes(a) < plan_bytes(b) : a->cost < b->cost;
}

/* Takes the plan over. */
static void consider(struct choice *c, struct neap_plan *plan) {
  const bool fits = c->budget != NEAP_BUDGET_MIN && plan_bytes(plan) <= c->budget;
  struct neap_plan **place = fits ? &c->best : &c->least;
  if (better(plan, *place, !fits)) swap_plans(place, &plan);
  neap_plan_free(plan);
}

static bool asked(const struct choice *c, int32_t row) {
  return strcmp(c->name, "auto") == 0 ? c->step->node_count <= planners[row].auto_limit
                                      : strcmp(c->name, planners[row].name) == 0;
}

/* The order in which rows are asked: `keep-all`, which nothing beats where it fits; then the last row, which
 * is mostly the best and spares others the layout. For a quick look the table's: the simple ones first. */
static int32_t row_at(int32_t i, bool quick) {
  if (i == 0 || quick) return i;
  return i == 1 ? planner_count - 1 : i - 1;
}

/* Rows that can use more time get what is left of it, and no less than a moment. */
static neap_status ask_longer(struct choice *c, const struct planner_options *options, uint64_t *missing) {
  static const double moment = 0.05;
  struct planner_options longer = *options;
  longer.goes_on = true;
  for (int32_t i = 0; i < planner_count; i++) {
    struct neap_plan *plan = NULL;
    if (!asked(c, i) || !planners[i].loose || clock_seconds() + moment > options->deadline) continue;
    const neap_status status = run_planner(c->step, c->budget, &planners[i], &longer, c->best, &plan);
    if (status != NEAP_OK && status != NEAP_OVER_BUDGET) return status;
    if (plan == NULL) continue;
    *missing &= ~((uint64_t)1 << i);
    consider(c, plan);
  }
  return NEAP_OK;
}

/* What each row does within the budget. `missing`: a bit for each that does not meet it. */
static neap_status ask_within(struct choice *c, const struct planner_options *options, uint64_t *missing) {
  *missing = 0;
  for (int32_t i = 0; i < planner_count; i++) {
    const int32_t row = row_at(i, options->quick);
    const struct neap_plan *best = c->step->node_count > TINY_STEP ? c->best : NULL;
    struct neap_plan *plan = NULL;
    if (!asked(c, row)) continue;
    const neap_status status = c->budget == NEAP_BUDGET_MIN || c->budget < c->bound
                                   ? NEAP_OVER_BUDGET
                                   : run_planner(c->step, c->budget, &planners[row], options, best, &plan);
    if (status == NEAP_OVER_BUDGET)
      *missing |= (uint64_t)1 << row;
    else if (status != NEAP_OK)
      return status;
    else if (plan != NULL)
      consider(c, plan);
    if (c->best != NULL && (options->quick || c->best->recomputed == 0))
      return NEAP_OK; /* nothing is cheaper */
  }
  const bool possible = c->budget != NEAP_BUDGET_MIN && c->budget >= c->bound;
  return possible && options->deadline > 0 && !options->quick ? ask_longer(c, options, missing) : NEAP_OK;
}

/* The least of the rows that do not meet the budget, whatever it is; for "auto", but for tiny steps, only of
 * those that find it at once. */
static neap_status ask_least(struct choice *c, const struct planner_options *options, uint64_t missing) {
  const bool every = c->step->node_count <= TINY_STEP || strcmp(c->name, "auto") != 0;
  for (int32_t i = 0; i < planner_count; i++) {
    struct neap_plan *plan = NULL;
    if (!(missing >> i & 1) || (!every && planners[i].least == NULL)) continue;
    const neap_status status = find_least(c->step, &planners[i], c->bound, options, &plan);
    if (status == NEAP_OVER_BUDGET) continue; /* this row does not take such a graph at all */
    if (status != NEAP_OK) return status;
    consider(c, plan);
  }
  return NEAP_OK;
}

/* What is found within a byte less than the least plan needs is a lesser plan, until nothing is. In all but a
 * tiny step it would go on for long, a few bytes at a time. */
static neap_status ask_below_least(struct choice *c, const struct planner_options *options, bool *met) {
  *met = false;
  if (c->step->node_count > TINY_STEP) return NEAP_OK;
  for (;;) {
    uint64_t missing;
    struct choice below = {
        .step = c->step, .name = c->name, .bound = c->bound, .budget = plan_bytes(c->least) - 1};
    const neap_status status = ask_within(&below, options, &missing);
    const bool found = status == NEAP_OK && below.best != NULL;
    if (found) swap_plans(&c->least, &below.best);
    neap_plan_free(below.best);
    neap_plan_free(below.least);
    if (status != NEAP_OK || !found) return status;
    *met = true;
  }
}

/* In the place of the least plan the cheapest for the bytes that it needs. That may need fewer, and be laid
 * out in fewer, so it is asked for whatever the budget: the least is the same for all. */
static neap_status ask_at_least(struct choice *c, const struct planner_options *options) {
  enum { ROUNDS = 3 };
  neap_status status = NEAP_OK;
  uint64_t missing, before = UINT64_MAX;
  for (int i = 0; i < ROUNDS && status == NEAP_OK && plan_bytes(c->least) < before; i++) {
    struct neap_plan *least = c->least;
    struct choice at_least = {
        .step = c->step, .name = c->name, .bound = c->bound, .budget = plan_bytes(least)};
    c->least = NULL;
    consider(&at_least, least);
    status = ask_within(&at_least, options, &missing);
    neap_plan_free(at_least.least);
    c->least = at_least.best;
    before = plan_bytes(c->least);
    if (status == NEAP_OK) status = plan_tighten(c->step, true, &c->least);
  }
  return status;
}

/* Only whether the budget is met. */
static neap_status ask_quickly(struct choice *c, const struct planner_options *options) {
  uint64_t missing;
  TRY(ask_within(c, options, &missing));
  RETURN_IF(c->best == NULL, NEAP_OVER_BUDGET, "no plan was found within %llu bytes",
            (unsigned long long)c->budget);
  return NEAP_OK;
}

static neap_status ask_rows(struct choice *c, const struct planner_options *options) {
  uint64_t missing;
  TRY(ask_within(c, options, &missing));
  if (c->best != NULL && c->step->node_count > TINY_STEP) return NEAP_OK;
  TRY(ask_least(c, options, missing));
  if (c->best != NULL || c->least == NULL || plan_bytes(c->least) == 0) return NEAP_OK;
  bool met;
  TRY(ask_below_least(c, options, &met));
  return met ? NEAP_OK : ask_at_least(c, options);
}

/* A row that was asked for by name has said why last. */
static neap_status say_unsuited(const struct choice *c) {
  RETURN_IF(strcmp(c->name, "auto") == 0, NEAP_OVER_BUDGET, "no planner finds a plan for this graph");
  return neap_fail(NEAP_OVER_BUDGET, "planner '%s' finds no plan for this graph under any budget: %s",
                   c->name, neap_error_message());
}

/* The plan for a budget, as above. */
static neap_status plan_within(struct choice *choice, const struct planner_options *options,
                               uint64_t *smallest) {
  const bool least = choice->budget == NEAP_BUDGET_MIN;
  if (smallest != NULL) *smallest = 0;
  if (options->quick && !least) return ask_quickly(choice, options);
  TRY(ask_rows(choice, options));
  if (choice->best == NULL && choice->least == NULL) return say_unsuited(choice);
  if (choice->best == NULL && (least || plan_bytes(choice->least) <= choice->budget)) {
    choice->best = choice->least;
    choice->least = NULL;
  }
  if (choice->best != NULL)
    return clock_is_past(options->deadline) ? NEAP_OK : plan_tighten(choice->step, false, &choice->best);
  if (smallest != NULL) *smallest = plan_bytes(choice->least);
  return plan_over_budget(choice->name, choice->budget, plan_bytes(choice->least));
}

/* How far from the best the plan can be. Costs added in another order differ in the last digits. */
static neap_status add_bounds(const struct choice *c, uint64_t asked, bool quick) {
  struct neap_plan *plan = c->best;
  plan->lower_bound_bytes = c->bound;
  if (quick) return NEAP_OK;
  const uint64_t budget = asked == NEAP_BUDGET_MIN ? plan_bytes(plan) : asked;
  TRY(plan_cost_bound(c->step, budget, &plan->cost_lower_bound));
  TRY(plan_least_cost(c->step, budget, &plan->cost_lower_bound));
  plan->proven_optimal = plan->cost <= plan->cost_lower_bound * (1 + 1e-12);
  plan->cost_lower_bound = fmin(plan->cost_lower_bound, plan->cost);
  return NEAP_OK;
}

neap_status neap_plan_make_with(const neap_step *step, uint64_t budget, const neap_plan_options *options,
                                uint64_t *smallest, neap_plan **plan) {
  RETURN_IF(step == NULL || options == NULL, NEAP_INVALID_ARGUMENT, "a plan needs a step and options");
  struct choice choice = {
      .step = step, .budget = budget, .name = options->planner != NULL ? options->planner : "auto"};
  RETURN_IF(strcmp(choice.name, "auto") != 0 && planner_find(choice.name) == NULL, NEAP_INVALID_ARGUMENT,
            "there is no planner '%s'", choice.name);
  const double start = clock_seconds();
  struct descent descent = {0};
  const struct planner_options planner_options = {.descent = &descent,
                                                  .quick = options->quick,
                                                  .deadline =
                                                      options->seconds > 0 ? start + options->seconds : 0,
                                                  .started = start,
                                                  .progress = options->progress,
                                                  .context = options->context};
  neap_status status = plan_memory_bound(step, &choice.bound);
  if (status == NEAP_OK)
    status = budget == NEAP_BUDGET_MAX
                 ? run_planner(step, budget, planner_find("keep-all"), &quick_look, NULL, &choice.best)
                 : plan_within(&choice, &planner_options, smallest);
  if (status == NEAP_OK) status = add_bounds(&choice, budget, options->quick);
  if (status == NEAP_OK) {
    choice.best->seconds = clock_seconds() - start;
    *plan = choice.best;
    choice.best = NULL;
  }
  neap_plan_free(choice.best);
  neap_plan_free(choice.least);
  descent_free(&descent);
  return status;
}

neap_status neap_step_keep_all_bytes(const neap_step *step, uint64_t *bytes) {
  struct neap_plan *plan = NULL;
  TRY(run_planner(step, NEAP_BUDGET_MAX, planner_find("keep-all"), &quick_look, NULL, &plan));
  *bytes = plan_bytes(plan);
  neap_plan_free(plan);
  return NEAP_OK;
}

neap_status neap_plan_make(const neap_step *step, uint64_t budget, const char *planner, uint64_t *smallest,
                           neap_plan **plan) {
  return neap_plan_make_with(step, budget, &(neap_plan_options){.planner = planner}, smallest, plan);
}
