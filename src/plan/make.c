/* Makes a plan from a step and a budget: planners, the simulator and the layout together. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "plan/cost_bound.h"
#include "plan/memory_bound.h"
#include "plan/plan_row.h"
#include "plan/planners.h"
#include "plan/repair.h"
#include "search/descent.h"
#include "search/plan_restoring.h"
#include "search/planning.h"
#include "step/lower_bound.h"
#include "step/tuning.h"

struct choice {
  const neap_step *step;
  const char *name;        /* of a row, or "auto" for all */
  uint64_t budget, bound;  /* no schedule has a peak below the bound */
  double least_cost;       /* none within the budget costs less; 0: that is not known */
  struct neap_plan *best;  /* the cheapest within the budget */
  struct neap_plan *least; /* the one with the least peak, of those above it */
  bool least_is_tight;     /* in the smallest arena that is found for it */
  bool out_of_memory;      /* a row was, and the others were asked all the same */
};

static bool better(const struct neap_plan *a, const struct neap_plan *b, bool by_peak) {
  if (b == NULL) return true;
  return by_peak ? plan_bytes(a) < plan_bytes(b) : a->cost < b->cost;
}

/* Takes ownership of the plan and keeps it if it is better. */
static void consider(struct choice *c, struct neap_plan *plan) {
  const bool fits = c->budget != NEAP_BUDGET_MIN && plan_bytes(plan) <= c->budget;
  struct neap_plan **place = fits ? &c->best : &c->least;
  if (better(plan, *place, !fits)) swap_plans(place, &plan);
  neap_plan_free(plan);
}

static bool asked(const struct choice *c, int32_t row) {
  return strcmp(c->name, "auto") == 0
             ? c->step->node_count <= planners[row].auto_limit && !planners[row].restores
             : strcmp(c->name, planners[row].name) == 0;
}

/* The order of asking planners: first `keep-all`, as nothing is cheaper if it fits; then the last row, which
 * is mostly the best and spares others the layout. A quick look takes the table's order: simple planners
 * first. */
static int32_t row_at(int32_t i, bool quick) {
  if (i == 0 || quick) return i;
  return i == 1 ? planner_count - 1 : i - 1;
}

/* Gives the time that is left, at least a LONG_MOMENT, to each planner that can use it. */
static neap_status ask_longer(struct choice *c, const struct planner_options *options, uint64_t *missing) {
  struct planner_options longer = *options;
  longer.effort = EFFORT_LONG;
  for (int32_t i = 0; i < planner_count; i++) {
    struct neap_plan *plan = NULL;
    if (!asked(c, i) || !planners[i].loose || clock_seconds() + LONG_MOMENT > options->deadline) continue;
    const neap_status status = plan_row(c->step, c->budget, &planners[i], &longer, c->best, &plan);
    if (status != NEAP_OK && status != NEAP_OVER_BUDGET) return status;
    if (plan == NULL) continue;
    *missing &= ~((uint64_t)1 << i);
    consider(c, plan);
  }
  return NEAP_OK;
}

/* A planner that runs on its own thread. */
struct task {
  int32_t row;
  struct neap_plan *plan;
  struct ending ended;
};

enum { TASKS = 16 }; /* at a time */

static neap_status ask_row(const struct choice *c, const struct planner_options *options, struct task *task) {
  const struct neap_plan *best = c->step->node_count > TINY_STEP ? c->best : NULL;
  return c->budget == NEAP_BUDGET_MIN || c->budget < c->bound
             ? NEAP_OVER_BUDGET
             : plan_row(c->step, c->budget, &planners[task->row], options, best, &task->plan);
}

/* Returns true if the other planners are asked all the same: "auto" goes on if one is out of memory. If no
 * planner finds a plan, out of memory is the answer. */
static bool goes_on(struct choice *c, neap_status told) {
  if (told != NEAP_OUT_OF_MEMORY || strcmp(c->name, "auto") != 0) return false;
  c->out_of_memory = true;
  return true;
}

/* Runs planners in parallel; none uses the result of another. */
static neap_status ask_tasks(struct choice *c, const struct planner_options *options, struct task *tasks,
                             int count, uint64_t *missing) {
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request) num_threads(threads_for(count))
  for (int i = 0; i < count; i++) ending_keep(&tasks[i].ended, ask_row(c, options, &tasks[i]));
  neap_status status = NEAP_OK;
  for (int i = 0; i < count; i++) {
    const bool misses = tasks[i].ended.status == NEAP_OVER_BUDGET;
    const neap_status told = ending_tell(&tasks[i].ended);
    if (misses) *missing |= (uint64_t)1 << tasks[i].row;
    if (status == NEAP_OK && !misses && !goes_on(c, told)) status = told;
    if (tasks[i].plan != NULL) consider(c, tasks[i].plan);
  }
  return status;
}

/* Asks each planner for a plan within the budget. `missing`: a bit for each that does not meet it. */
static neap_status ask_within(struct choice *c, const struct planner_options *options, uint64_t *missing) {
  const bool quick = options->effort == EFFORT_QUICK;
  *missing = 0;
  for (int32_t i = 0; i < planner_count;) {
    /* The first two, and in a quick look each, may make the others superfluous. */
    const int most = quick || i < 2 ? 1 : TASKS;
    struct task tasks[TASKS] = {{0}};
    int count = 0;
    for (; i < planner_count && count < most; i++)
      if (asked(c, row_at(i, quick))) tasks[count++].row = row_at(i, quick);
    TRY(ask_tasks(c, options, tasks, count, missing));
    if (c->best != NULL && (quick || c->best->recomputed == 0)) return NEAP_OK; /* nothing is cheaper */
  }
  const bool possible = c->budget != NEAP_BUDGET_MIN && c->budget >= c->bound;
  return possible && options->deadline > 0 && !quick ? ask_longer(c, options, missing) : NEAP_OK;
}

/* Asks planners that miss the budget for their least plan, whatever its size. For "auto" in steps that are
 * not tiny, only those that find it directly. */
static neap_status ask_least(struct choice *c, const struct planner_options *options, uint64_t missing) {
  const bool every = c->step->node_count <= TINY_STEP || strcmp(c->name, "auto") != 0;
  for (int32_t i = 0; i < planner_count; i++) {
    struct neap_plan *plan = NULL;
    if (!(missing >> i & 1) || (!every && planners[i].least == NULL)) continue;
    const neap_status status = plan_row_least(c->step, &planners[i], c->bound, options, &plan);
    if (status == NEAP_OVER_BUDGET) continue; /* this row does not take such a graph at all */
    if (goes_on(c, status)) continue;
    if (status != NEAP_OK) return status;
    consider(c, plan);
  }
  return NEAP_OK;
}

/* Asks for a byte less than the least plan needs, until no plan is found. Only in tiny steps: in others this
 * would go on for long, a few bytes at a time. */
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

/* Replaces the least plan by the cheapest plan of its size. That may need fewer bytes, and its layout too, so
 * it is made whatever the budget is: the least is the same for all budgets. */
static neap_status ask_at_least(struct choice *c, const struct planner_options *asked_with) {
  struct planner_options options = *asked_with;
  options.work = options.least_work;
  neap_status status = NEAP_OK;
  uint64_t missing, before = UINT64_MAX;
  const int rounds = options.brief ? 1 : LEAST_ROUNDS;
  for (int i = 0; i < rounds && status == NEAP_OK && plan_bytes(c->least) < before; i++) {
    struct neap_plan *least = c->least;
    struct choice at_least = {
        .step = c->step, .name = c->name, .bound = c->bound, .budget = plan_bytes(least)};
    c->least = NULL;
    consider(&at_least, least);
    status = ask_within(&at_least, &options, &missing);
    neap_plan_free(at_least.least);
    c->least = at_least.best;
    before = plan_bytes(c->least);
    if (status == NEAP_OK) status = plan_tighten(c->step, true, &c->least);
  }
  c->least_is_tight = true;
  return status;
}

/* Only finds out whether the budget is met. */
static neap_status ask_quickly(struct choice *c, const struct planner_options *options) {
  uint64_t missing;
  TRY(ask_within(c, options, &missing));
  RETURN_IF(c->best == NULL, NEAP_OVER_BUDGET, "no plan was found within %llu bytes",
            (unsigned long long)c->budget);
  return NEAP_OK;
}

/* The shares of the least plan's bytes that are tried as lower budgets, so that the least budget named is the
 * least that is met. Each is asked for as a caller would, so that a caller gets the same answer. */
static const double shares_below[] = {0.95, 0.99, 0.999};
enum { TRIES_BELOW = 8 };

static neap_status ask_share(struct choice *c, const struct planner_options *options, double share,
                             bool *met) {
  struct descent descent = {0};
  struct planner_options fresh = *options;
  fresh.descent = &descent;
  fresh.work = fresh.least_work;
  uint64_t missing;
  struct choice below = {.step = c->step,
                         .name = c->name,
                         .bound = c->bound,
                         .budget = (uint64_t)(share * (double)plan_bytes(c->least))};
  neap_status status = NEAP_OK;
  *met = false;
  if (below.budget >= c->bound) status = ask_within(&below, &fresh, &missing);
  if (status == NEAP_OK && below.best != NULL) status = plan_tighten(c->step, true, &below.best);
  if (status == NEAP_OK && below.best != NULL) swap_plans(&c->least, &below.best), *met = true;
  neap_plan_free(below.best);
  neap_plan_free(below.least);
  descent_free(&descent);
  return status;
}

/* Replaces the least plan by lower ones while budgets below it are met. This takes longer than all before. */
static neap_status ask_shares_below(struct choice *c, const struct planner_options *options) {
  const int shares = (int)(sizeof shares_below / sizeof *shares_below);
  for (int tries = 0, i = 0; i < shares && tries < TRIES_BELOW; tries++) {
    bool met;
    TRY(ask_share(c, options, shares_below[i], &met));
    if (!met) i++;
  }
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
  if (met) return NEAP_OK;
  TRY(ask_at_least(c, options));
  return options->effort == EFFORT_QUICK || options->brief ? NEAP_OK : ask_shares_below(c, options);
}

/* Fails with the last message of the planner if it was asked for by name. */
static neap_status say_unsuited(const struct choice *c) {
  RETURN_IF(strcmp(c->name, "auto") == 0, NEAP_OVER_BUDGET, "no planner finds a plan for this graph");
  return neap_fail(NEAP_OVER_BUDGET, "planner '%s' finds no plan for this graph under any budget: %s",
                   c->name, neap_error_message());
}

/* Makes the plan for a budget, as above. The least plan is not searched for unless it is asked for or may be
 * within the budget. */
static neap_status plan_within(struct choice *choice, const struct planner_options *options,
                               uint64_t *smallest) {
  const bool least = choice->budget == NEAP_BUDGET_MIN;
  if (smallest != NULL) *smallest = 0;
  if (options->effort == EFFORT_QUICK && !least) return ask_quickly(choice, options);
  RETURN_IF(smallest == NULL && !least && choice->budget < choice->bound, NEAP_OVER_BUDGET,
            "a budget of %llu bytes is too small: every plan needs at least %llu",
            (unsigned long long)choice->budget, (unsigned long long)choice->bound);
  TRY(ask_rows(choice, options));
  if (choice->best == NULL && choice->least == NULL) return say_unsuited(choice);
  const bool takes_least = choice->best == NULL && (least || plan_bytes(choice->least) <= choice->budget);
  if (takes_least) swap_plans(&choice->best, &choice->least);
  if (choice->best != NULL)
    return (takes_least && choice->least_is_tight) || clock_is_past(options->deadline)
               ? NEAP_OK
               : plan_tighten(choice->step, false, &choice->best);
  if (smallest != NULL) *smallest = plan_bytes(choice->least);
  return plan_over_budget(choice->name, choice->budget, plan_bytes(choice->least));
}

/* The bounds of a step whose values may be restored: nothing must be recomputed, or held in between. */
static bool has_restorers(const neap_step *step) { return step->required_count < step->node_count; }

static neap_status bound_memory(const neap_step *step, uint64_t *bytes) {
  if (!has_restorers(step)) return plan_memory_bound(step, bytes);
  *bytes = plan_lower_bound(step);
  return NEAP_OK;
}

static neap_status bound_cost(const neap_step *step, uint64_t budget, double *cost) {
  *cost = step->base_cost;
  if (has_restorers(step)) return NEAP_OK;
  TRY(plan_cost_bound(step, budget, cost));
  return plan_least_cost(step, budget, cost);
}

/* Finds both lower bounds in parallel, although the bound on the cost is only reported. */
static neap_status find_bounds(struct choice *c, bool quick) {
  enum { BYTES, COST };
  const bool has_budget = c->budget != NEAP_BUDGET_MIN && c->budget != NEAP_BUDGET_MAX;
  const int count = has_budget && !quick ? 2 : 1;
  struct ending ended[2];
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request) num_threads(threads_for(count))
  for (int i = 0; i < count; i++)
    ending_keep(&ended[i], i == BYTES ? bound_memory(c->step, &c->bound)
                                      : bound_cost(c->step, c->budget, &c->least_cost));
  return status_of_tasks(ended, count);
}

/* Adds how far the plan may be from the best. Sums of costs in another order differ in the last digits. */
static neap_status add_bounds(const struct choice *c, bool quick) {
  struct neap_plan *plan = c->best;
  plan->lower_bound_bytes = c->bound;
  if (quick) return NEAP_OK;
  plan->cost_lower_bound = c->least_cost;
  if (c->budget == NEAP_BUDGET_MIN || c->budget == NEAP_BUDGET_MAX)
    TRY(bound_cost(c->step, c->budget == NEAP_BUDGET_MIN ? plan_bytes(plan) : c->budget,
                   &plan->cost_lower_bound));
  plan->proven_optimal = plan->cost <= plan->cost_lower_bound * (1 + 1e-12);
  plan->cost_lower_bound = fmin(plan->cost_lower_bound, plan->cost);
  return NEAP_OK;
}

/* Returns the work of one search on the way to the least; 0: no limit. */
static int64_t share_of_work(int64_t work) {
  return work > 0 && work < LEAST_SEARCHES ? 1 : work / LEAST_SEARCHES;
}

/* Returns true if the limit leaves no work for what more than a first plan of the least takes. */
static bool is_brief(const neap_step *step, int64_t work) {
  return work > 0 && work < LEAST_WHOLE * planning_work(step->node_count);
}

/* Asks the planners that are wanted; those that do not restore take steps without optional nodes alone. */
static neap_status make_plan(const neap_step *step, uint64_t budget, const neap_plan_options *options,
                             uint64_t *smallest, neap_plan **plan) {
  struct choice choice = {
      .step = step, .budget = budget, .name = options->planner != NULL ? options->planner : "auto"};
  RETURN_IF(strcmp(choice.name, "auto") != 0 && planner_find(choice.name) == NULL, NEAP_INVALID_ARGUMENT,
            "planner '%s' does not exist", choice.name);
  RETURN_IF(options->least_work < 0, NEAP_INVALID_ARGUMENT, "least_work must not be negative (got %lld)",
            (long long)options->least_work);
  const double start = clock_seconds();
  const volatile int *before = stop_listen(options->stop);
  struct descent descent = {0};
  const struct planner_options planner_options = {.descent = &descent,
                                                  .effort = options->quick ? EFFORT_QUICK : EFFORT_USUAL,
                                                  .deadline =
                                                      options->seconds > 0 ? start + options->seconds : 0,
                                                  .started = start,
                                                  .least_work = share_of_work(options->least_work),
                                                  .brief = is_brief(step, options->least_work),
                                                  .progress = options->progress,
                                                  .context = options->context};
  neap_status status = find_bounds(&choice, options->quick);
  if (status == NEAP_OK)
    status = budget == NEAP_BUDGET_MAX
                 ? plan_row(step, budget, planner_find("keep-all"), &quick_look, NULL, &choice.best)
                 : plan_within(&choice, &planner_options, smallest);
  if (status == NEAP_OVER_BUDGET && choice.out_of_memory)
    status = neap_fail(NEAP_OUT_OF_MEMORY,
                       "planners ran out of memory, and the others have no plan within %llu bytes",
                       (unsigned long long)budget);
  if (status == NEAP_OK) status = add_bounds(&choice, options->quick);
  if (status == NEAP_OK) {
    choice.best->seconds = clock_seconds() - start;
    *plan = choice.best;
    choice.best = NULL;
  }
  neap_plan_free(choice.best);
  neap_plan_free(choice.least);
  descent_free(&descent);
  stop_listen(before);
  return status;
}

/* ---- Steps whose values may be restored ---- */

/* Not in the table: only such steps are planned by it. */
static const struct planner restoring = {.name = "neap", .loose = true, .plan = plan_restoring};

/* Makes the plan that restores values, within the budget (for the least budget, or if `least`, the one with
 * the least peak), from `best` on, which restores none (NULL: none exists). `*plan` NULL: none is found. */
static neap_status plan_with_restorers(const neap_step *step, uint64_t budget, bool least,
                                       const neap_plan_options *options, const struct neap_plan *best,
                                       struct neap_plan **plan) {
  const double start = clock_seconds();
  struct schedule near = {0};
  const struct planner_options how = {.effort = options->quick ? EFFORT_QUICK : EFFORT_USUAL,
                                      .deadline = options->seconds > 0 ? start + options->seconds : 0,
                                      .started = start,
                                      .near = best != NULL ? &near : NULL,
                                      .progress = options->progress,
                                      .context = options->context};
  const volatile int *before = stop_listen(options->stop);
  neap_status status = NEAP_OK;
  for (int32_t i = 0; status == NEAP_OK && best != NULL && i < best->length; i++)
    status = vector_push(&near.nodes, best->schedule[i]);
  if (status == NEAP_OK)
    status = least || budget == NEAP_BUDGET_MIN
                 ? plan_row_least(step, &restoring, plan_lower_bound(step), &how, plan)
                 : plan_row(step, budget, &restoring, &how, best, plan);
  stop_listen(before);
  schedule_free(&near);
  return status == NEAP_OVER_BUDGET ? NEAP_OK : status;
}

/* Takes `other` if it is better: cheaper, or for the least budget smaller. */
static void take_better(uint64_t budget, struct neap_plan **plan, struct neap_plan **other) {
  if (*other == NULL || (*plan != NULL && !better(*other, *plan, budget == NEAP_BUDGET_MIN))) return;
  swap_plans(plan, other);
}

/* Asks the rows that use optional nodes, and takes what is better. */
static neap_status ask_restoring_rows(const neap_step *step, uint64_t budget,
                                      const neap_plan_options *options, struct neap_plan **plan) {
  neap_plan_options own = *options;
  for (int32_t i = 0; i < planner_count; i++) {
    struct neap_plan *other = NULL;
    own.planner = planners[i].name;
    if (!planners[i].restores || step->node_count > planners[i].auto_limit) continue;
    const neap_status status = make_plan(step, budget, &own, NULL, &other);
    if (status == NEAP_OK) take_better(budget, plan, &other);
    neap_plan_free(other);
    if (status != NEAP_OK && status != NEAP_OVER_BUDGET) return status;
  }
  return NEAP_OK;
}

/* Takes the least plan with restorers if it is within the budget after all, so that a budget that was named
 * is met. Else fails and names it, or the least without restorers (`plain`; 0: none), if that is smaller. */
static neap_status take_or_name_least(const neap_step *step, uint64_t budget,
                                      const neap_plan_options *options, uint64_t plain, uint64_t *smallest,
                                      struct neap_plan **plan) {
  struct neap_plan *least = NULL;
  TRY(plan_with_restorers(step, budget, true, options, NULL, &least));
  const uint64_t bytes = least != NULL ? plan_bytes(least) : UINT64_MAX;
  if (bytes <= budget) {
    *plan = least;
    return NEAP_OK;
  }
  neap_plan_free(least);
  *smallest = plain != 0 && plain < bytes ? plain : bytes == UINT64_MAX ? 0 : bytes;
  return plan_over_budget(options->planner, budget, *smallest);
}

/* Adds the bounds of plans that may restore: the tighter ones hold for others alone. */
static void add_loose_bounds(const neap_step *step, struct neap_plan *plan) {
  plan->lower_bound_bytes = plan_lower_bound(step);
  plan->cost_lower_bound = fmin(step->base_cost, plan->cost);
  plan->proven_optimal = plan->cost <= step->base_cost * (1 + 1e-12);
}

static bool asks_all(const neap_plan_options *options) {
  return options->planner == NULL || strcmp(options->planner, "auto") == 0;
}

/* Plans the step without and with its optional nodes, in half of the time each, and takes the better.
 * Published planners ignore them. */
static neap_status plan_both(const neap_step *step, const neap_step *plain, uint64_t budget,
                             const neap_plan_options *options, uint64_t *smallest, neap_plan **plan) {
  struct neap_plan *other = NULL;
  neap_plan_options half = *options;
  uint64_t least = 0;
  half.seconds /= 2;
  neap_status status = make_plan(plain, budget, &half, smallest != NULL ? &least : NULL, plan);
  if (smallest != NULL) *smallest = least;
  if (status != NEAP_OK && status != NEAP_OVER_BUDGET) return status;
  if (budget == NEAP_BUDGET_MAX ||
      (*plan != NULL && budget != NEAP_BUDGET_MIN && ((*plan)->recomputed == 0 || options->quick)))
    return status;
  TRY(plan_with_restorers(step, budget, false, &half, *plan, &other));
  take_better(budget, plan, &other);
  neap_plan_free(other);
  if (budget != NEAP_BUDGET_MIN && asks_all(options)) TRY(ask_restoring_rows(step, budget, &half, plan));
  if (*plan == NULL && smallest != NULL) TRY(take_or_name_least(step, budget, &half, least, smallest, plan));
  RETURN_IF(*plan == NULL, NEAP_OVER_BUDGET, "no plan was found within %llu bytes",
            (unsigned long long)budget);
  add_loose_bounds(step, *plan);
  return NEAP_OK;
}

/* Plans a step with optional nodes. */
static neap_status make_plan_of_all(const neap_step *step, uint64_t budget, const neap_plan_options *options,
                                    uint64_t *smallest, neap_plan **plan) {
  const struct planner *named = options->planner != NULL ? planner_find(options->planner) : NULL;
  neap_step *plain;
  if (named != NULL && named->restores) return make_plan(step, budget, options, smallest, plan);
  TRY(step_create_plain(step, &plain));
  const bool own = asks_all(options) || named == planner_find(restoring.name);
  const neap_status status = own ? plan_both(step, plain, budget, options, smallest, plan)
                                 : make_plan(plain, budget, options, smallest, plan);
  neap_step_free(plain);
  return status;
}

neap_status neap_plan_make_with(const neap_step *step, uint64_t budget, const neap_plan_options *options,
                                uint64_t *smallest, neap_plan **plan) {
  NEED(plan);
  RETURN_IF(step == NULL || options == NULL, NEAP_INVALID_ARGUMENT,
            "neap_plan_make_with: step or options is NULL");
  if (!has_restorers(step)) return make_plan(step, budget, options, smallest, plan);
  const double start = clock_seconds();
  neap_plan *made = NULL;
  const neap_status status = make_plan_of_all(step, budget, options, smallest, &made);
  if (status != NEAP_OK) {
    neap_plan_free(made);
    return status;
  }
  made->seconds = clock_seconds() - start;
  *plan = made;
  return NEAP_OK;
}

neap_status neap_step_keep_all_bytes(const neap_step *step, uint64_t *bytes) {
  NEED(step);
  NEED(bytes);
  struct neap_plan *plan = NULL;
  const volatile int *before = stop_listen(NULL);
  const neap_status status =
      plan_row(step, NEAP_BUDGET_MAX, planner_find("keep-all"), &quick_look, NULL, &plan);
  stop_listen(before);
  if (status != NEAP_OK) return status;
  *bytes = plan_bytes(plan);
  neap_plan_free(plan);
  return NEAP_OK;
}

neap_status neap_plan_make(const neap_step *step, uint64_t budget, const char *planner, uint64_t *smallest,
                           neap_plan **plan) {
  NEED(plan);
  return neap_plan_make_with(step, budget, &(neap_plan_options){.planner = planner}, smallest, plan);
}
