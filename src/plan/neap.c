/* Neap's own planner: several schedules are searched side by side, from keeping everything and from what
 * simpler planners start with, and the better half goes on until the work is spent; in two orders of the step
 * where one is leaner (docs/design.md, "The search"). */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "plan/node_order.h"
#include "plan/pebbling.h"
#include "plan/planners.h"
#include "plan/search.h"

enum { CANDIDATES = 4, CANDIDATE_LIMIT = CANDIDATES + 2 };

/* Of a whole plan, in units of the timeline: a few hundredths of a second for ten nodes, below a second for a
 * few hundred, a few seconds for ten thousand. */
static int64_t work_for(int64_t nodes) {
  enum { SMALL = 400, EACH = 46000, EACH_MORE = 6000 };
  return nodes < SMALL ? nodes * EACH : (int64_t)SMALL * EACH + (nodes - SMALL) * EACH_MORE;
}

struct planning {
  const neap_step *step;
  uint64_t limit;      /* bytes of values */
  int64_t work, spent; /* in all; by the descents */
  const struct planner_options *options;
  struct search *candidates[CANDIDATE_LIMIT]; /* the best first, once they are ranked */
  int count;
  const struct reordered_step *leaner; /* the step in a leaner order, where there is one; NULL: do not ask */
  struct told {
    double cost;
    int64_t excess;
  } told; /* the best that the caller was told of */
};

static bool any_fits(const struct planning *p) {
  for (int i = 0; i < p->count; i++)
    if (p->candidates[i]->timeline.excess == 0) return true;
  return false;
}

static bool time_is_up(const struct planning *p) { return clock_is_past(p->options->deadline); }

static bool done(const struct planning *p) {
  for (int i = 0; i < p->count; i++)
    if (search_is_optimal(p->candidates[i])) return true;
  return (p->options->quick && any_fits(p)) || time_is_up(p);
}

static neap_status add_candidate(struct planning *p, const struct schedule *start, bool radial) {
  struct search *search;
  TRY(search_create(p->step, p->limit, start, (uint32_t)p->count + 1, &search));
  search->radial = radial;
  p->candidates[p->count++] = search;
  TRY(search_descend(search, p->work / 2));
  if (search->timeline.excess > 0 && !p->options->quick) TRY(search_mend(search, p->work / 4));
  p->spent += search->timeline.work;
  return NEAP_OK;
}

/* A candidate from what another row finds within the limit. That it finds nothing is no failure. */
static neap_status add_row(struct planning *p, planner_function *row, bool quick) {
  const struct planner_options options = {.quick = quick};
  struct schedule schedule = {0};
  neap_status status = row(p->step, p->step->resident_bytes + p->limit, &options, &schedule);
  const bool found = status == NEAP_OK;
  if (status == NEAP_OVER_BUDGET) status = NEAP_OK;
  if (found) status = add_candidate(p, &schedule, false);
  schedule_free(&schedule);
  return status;
}

/* The chain's optimum where the step is one; what the walk of `evict` gives, where that is quick or nothing
 * fits yet; and the step's own order, with different random numbers and ways to forget. */
static neap_status start(struct planning *p) {
  TRY(add_row(p, plan_rotor, p->options->quick));
  if (p->step->node_count <= LARGE_STEP && !done(p)) TRY(add_row(p, plan_evict, p->options->quick));
  struct schedule schedule = {0};
  const struct planner_options quick = {.quick = true};
  neap_status status = plan_keep_all(p->step, UINT64_MAX, &quick, &schedule);
  const int own = p->count;
  while (status == NEAP_OK && p->count < CANDIDATES && p->spent < p->work / 4 && !done(p))
    status = add_candidate(p, &schedule, p->count == own);
  schedule_free(&schedule);
  if (status == NEAP_OK && p->step->node_count > LARGE_STEP && !any_fits(p) && !done(p))
    status = add_row(p, plan_evict, true);
  return status;
}

static void rank(struct planning *p) {
  for (int i = 1; i < p->count; i++)
    for (int k = i; k > 0 && search_better(p->candidates[k], p->candidates[k - 1]); k--) {
      struct search *swap = p->candidates[k];
      p->candidates[k] = p->candidates[k - 1];
      p->candidates[k - 1] = swap;
    }
}

/* Tells the caller, on its own thread, of the best so far. */
static void report(struct planning *p, const struct search *search) {
  const struct timeline *t = &search->timeline;
  if (p->options->progress == NULL) return;
  neap_plan_progress progress;
#pragma omp critical(neap_report)
  {
    if (t->excess < p->told.excess || (t->excess == p->told.excess && t->cost < p->told.cost))
      p->told = (struct told){t->cost, t->excess};
    progress = (neap_plan_progress){clock_seconds() - p->options->started, p->told.cost, p->told.excess == 0};
  }
  if (omp_get_thread_num() == 0) p->options->progress(&progress, p->options->context);
}

/* One candidate for so much work, in pieces with a report after each. */
static neap_status advance(struct planning *p, struct search *search, int64_t work) {
  enum { PIECE = 1 << 20 };
  const bool quick = p->options->quick;
  for (int64_t left = work; left > 0; left -= PIECE) {
    if (search_is_optimal(search) || (quick && search->timeline.excess == 0) || time_is_up(p)) break;
    TRY(search_tidy(search));
    TRY(search_rebuild(search, left < PIECE ? left : PIECE, p->options->deadline, quick));
    report(p, search);
  }
  return NEAP_OK;
}

/* The first so many, each for so much work. None looks at another, so that the plan is the same for any
 * number of threads. A quick look takes the first that fits. */
static neap_status advance_all(struct planning *p, int count, int64_t work) {
  struct ending ended[CANDIDATE_LIMIT] = {{NEAP_OK, ""}};
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->options->quick ? 1 : threads_for(count))
  for (int i = 0; i < count; i++)
    if (!(p->options->quick && any_fits(p))) ending_keep(&ended[i], advance(p, p->candidates[i], work));
  return status_of_tasks(ended, count);
}

static neap_status race(struct planning *p) {
  const int64_t work = p->work > p->spent ? p->work - p->spent : 0;
  enum { LAST = 2 };
  int64_t rest = work;
  for (int left = p->count; left > 0 && !done(p); left = left > LAST ? left / 2 : 0) {
    const int64_t share = left > LAST ? work / 4 : rest;
    TRY(advance_all(p, left, share / left));
    rank(p);
    rest -= share;
  }
  return NEAP_OK;
}

/* Where the caller gave time, the best two share what is left of it. */
static neap_status go_on(struct planning *p) {
  enum { SHARE = 1 << 23 };
  while (p->options->goes_on && !done(p)) {
    const int count = p->count < 2 ? p->count : 2;
    for (int i = 0; i < count; i++) p->candidates[i]->in_vain = 0;
    TRY(advance_all(p, count, SHARE));
    rank(p);
  }
  return NEAP_OK;
}

/* What a planning leads to. */
struct outcome {
  struct schedule best, runner_up; /* the latter empty, but where one is asked for and there is one */
  double cost;                     /* of the best; INFINITY: there is none */
};

static void free_outcome(struct outcome *outcome) {
  schedule_free(&outcome->best);
  schedule_free(&outcome->runner_up);
}

static neap_status take_runner_up(const struct planning *p, struct outcome *out) {
  static const double nearly = 1.005;
  if (p->options->runner_up == NULL || p->count < 2) return NEAP_OK;
  const struct timeline *best = &p->candidates[0]->timeline, *second = &p->candidates[1]->timeline;
  const bool suits = second->excess == 0 && second->cost <= best->cost * nearly;
  return suits ? search_result(p->candidates[1], &out->runner_up) : NEAP_OK;
}

static neap_status improve(struct planning *p, struct outcome *out) {
  rank(p);
  TRY(race(p));
  TRY(go_on(p));
  rank(p);
  TRY(take_runner_up(p, out));
  return search_result(p->candidates[0], &out->best);
}

static void free_candidates(struct planning *p) {
  for (int i = 0; i < p->count; i++) search_free(p->candidates[i]);
}

static struct planning planning_of(const neap_step *step, uint64_t limit,
                                   const struct planner_options *options) {
  return (struct planning){.step = step,
                           .limit = limit,
                           .work = work_for(step->node_count),
                           .options = options,
                           .told = {INFINITY, INT64_MAX}};
}

/* ---- The least ---- */

/* Of each of the searches below: twice that of a plan, but in a large step, where it brings little. */
static int64_t work_for_least(const struct planning *p) {
  enum { MOST = 24000000 };
  return 2 * p->work < MOST ? 2 * p->work : MOST;
}

/* One attempt to bring the peak of a schedule below a limit; what is found takes the schedule's place. */
typedef neap_status lower_function(struct planning *p, uint64_t limit, struct schedule *best, bool *met);

static neap_status lower_by_row(const struct planning *p, planner_function *row, uint64_t limit,
                                struct schedule *best, bool *met) {
  const struct planner_options quick = {.quick = true};
  struct schedule schedule = {0};
  const neap_status status = row(p->step, p->step->resident_bytes + limit, &quick, &schedule);
  *met = status == NEAP_OK;
  if (*met) swap_schedules(best, &schedule);
  schedule_free(&schedule);
  return status == NEAP_OVER_BUDGET ? NEAP_OK : status;
}

static neap_status lower_by_rotor(struct planning *p, uint64_t limit, struct schedule *best, bool *met) {
  return lower_by_row(p, plan_rotor, limit, best, met);
}

static neap_status lower_by_evict(struct planning *p, uint64_t limit, struct schedule *best, bool *met) {
  return lower_by_row(p, plan_evict, limit, best, met);
}

static neap_status lower_by_search(struct planning *p, uint64_t limit, struct schedule *best, bool *met) {
  struct search *search;
  TRY(search_create(p->step, limit, best, 1, &search));
  const int64_t work = work_for_least(p) / 16;
  search->drifts = true;
  neap_status status = search_descend(search, work);
  if (status == NEAP_OK) status = search_rebuild(search, work, 0, true);
  *met = status == NEAP_OK && search->timeline.excess == 0;
  if (*met) status = search_result(search, best);
  p->spent += search->timeline.work;
  search_free(search);
  return status;
}

static neap_status lower_from_start(struct planning *p, const neap_step *step, uint64_t limit,
                                    struct schedule *best, bool *met) {
  struct planning below = planning_of(step, limit, p->options);
  neap_status status = start(&below);
  rank(&below);
  *met = status == NEAP_OK && any_fits(&below);
  if (*met) status = search_result(below.candidates[0], best);
  p->spent += below.spent;
  free_candidates(&below);
  return status;
}

/* What plan_neap() begins with, in either order. */
static neap_status lower_by_start(struct planning *p, uint64_t limit, struct schedule *best, bool *met) {
  TRY(lower_from_start(p, p->step, limit, best, met));
  if (*met || p->leaner == NULL) return NEAP_OK;
  TRY(lower_from_start(p, p->leaner->step, limit, best, met));
  if (*met) reordered_step_rename(p->leaner, best);
  return NEAP_OK;
}

static neap_status lower_by_pebbling(struct planning *p, uint64_t limit, struct schedule *best, bool *met) {
  enum { WORK = 32000000, UNITS = 16 }; /* some hundredths of a second; in the time of one of the timeline */
  int64_t left = WORK;
  struct schedule schedule = {0};
  TRY(pebble(p->step, limit, &left, &schedule, met));
  p->spent += (WORK - left) / UNITS;
  if (*met) swap_schedules(best, &schedule);
  schedule_free(&schedule);
  return NEAP_OK;
}

static neap_status find_peak(const neap_step *step, const struct schedule *schedule, uint64_t *bytes) {
  struct simulation score;
  TRY(simulate(step, schedule->nodes.data, (int32_t)schedule->nodes.count, &score));
  *bytes = score.peak_bytes;
  return NEAP_OK;
}

static neap_status find_cost(const neap_step *step, const struct schedule *schedule, double *cost) {
  struct simulation score;
  TRY(simulate(step, schedule->nodes.data, (int32_t)schedule->nodes.count, &score));
  *cost = score.cost;
  return NEAP_OK;
}

struct lowering {
  struct planning planning;
  struct schedule schedule;
  bool met;
};

static neap_status run_lowering(struct lowering *l, const struct planning *p, lower_function *lower,
                                uint64_t limit, const struct schedule *from) {
  *l = (struct lowering){.planning = *p};
  l->planning.spent = 0;
  TRY(schedule_copy(&l->schedule, from->nodes.data, from->nodes.count));
  return lower(&l->planning, limit, &l->schedule, &l->met);
}

/* Down in steps, shares of the live bytes, that become smaller where one fails. The step that would come next
 * after a failure is tried beside each, where threads are free; what comes out is the same. */
static neap_status squeeze(struct planning *p, lower_function *lower, double shrink, double least_shrink,
                           struct schedule *best) {
  enum { AT_ONCE = 2 };
  const int count = threads_for(AT_ONCE);
  neap_status status = NEAP_OK;
  p->spent = 0;
  while (status == NEAP_OK && shrink >= least_shrink && p->spent <= work_for_least(p)) {
    uint64_t peak;
    TRY(find_peak(p->step, best, &peak));
    const uint64_t live = peak - p->step->resident_bytes;
    if (live == 0) break;
    struct lowering tried[AT_ONCE];
    struct ending ended[AT_ONCE];
#pragma omp parallel for schedule(dynamic, 1) num_threads(count)
    for (int i = 0; i < count; i++) {
      const uint64_t cut = (uint64_t)((double)live * shrink / (1 << i));
      ending_keep(&ended[i], run_lowering(&tried[i], p, lower, live - (cut > 0 ? cut : 1), best));
    }
    status = status_of_tasks(ended, count);
    bool met = false;
    for (int i = 0; i < count; i++) {
      const bool due = !met && shrink >= least_shrink && p->spent <= work_for_least(p);
      if (due) p->spent += tried[i].planning.spent;
      if (due && tried[i].met) swap_schedules(best, &tried[i].schedule);
      if (due && !tried[i].met) shrink /= 2;
      met = met || (due && tried[i].met);
      schedule_free(&tried[i].schedule);
    }
  }
  return status;
}

static neap_status search_for_least(struct planning *p, struct schedule *out) {
  return squeeze(p, lower_by_search, 0.3, 0.002, out);
}

/* Some steps come lower as a chain, or by evicting. From there the search goes on. */
static neap_status look_beside(struct planning *p, struct schedule *out) {
  static const double least = 0.0005;
  uint64_t before, after;
  TRY(find_peak(p->step, out, &before));
  TRY(squeeze(p, lower_by_rotor, 0.01, least, out));
  TRY(squeeze(p, lower_by_evict, 0.1, least, out));
  TRY(find_peak(p->step, out, &after));
  return after < before ? search_for_least(p, out) : NEAP_OK;
}

static neap_status squeeze_all(struct planning *p, struct schedule *out) {
  const neap_step *step = p->step;
  TRY(plan_keep_all(step, UINT64_MAX, p->options, out));
  TRY(squeeze(p, lower_by_rotor, 0.5, 0.02, out));
  TRY(search_for_least(p, out));
  if (step->node_count <= LARGE_STEP) TRY(look_beside(p, out));
  TRY(squeeze(p, lower_by_start, 0.02, 0.004, out));
  enum { NODES = 100 }; /* of more it finds deep recomputation whose values do not pack */
  if (step->node_count > NODES) return NEAP_OK;
  return squeeze(p, lower_by_pebbling, 0.1, 0.001, out);
}

static neap_status find_least(const neap_step *step, struct schedule *out) {
  const struct planner_options quick = {.quick = true};
  struct planning p = planning_of(step, 0, &quick);
  struct reordered_step leaner;
  neap_status status = leaner_step_create(step, &leaner);
  p.leaner = leaner.step != NULL ? &leaner : NULL;
  if (status == NEAP_OK) status = squeeze_all(&p, out);
  reordered_step_free(&leaner);
  return status;
}

/* It hangs on the step alone, and is kept, where the caller wants that, in the order that is planned in. */
static neap_status give_least(const neap_step *step, const struct planner_options *options,
                              struct schedule *out) {
  struct schedule *kept = options->least;
  if (kept == NULL) return find_least(step, out);
  if (kept->nodes.count == 0) TRY(find_least(step, kept));
  return schedule_copy(out, kept->nodes.data, kept->nodes.count);
}

/* ---- The row ---- */

/* Where no start fits the limit the least plan is the start: a budget that it keeps is met. */
static neap_status add_least(struct planning *p) {
  struct schedule least = {0};
  uint64_t peak;
  neap_status status = give_least(p->step, p->options, &least);
  if (status == NEAP_OK) status = find_peak(p->step, &least, &peak);
  if (status == NEAP_OK && peak > p->step->resident_bytes + p->limit)
    status =
        neap_fail(NEAP_OVER_BUDGET, "neap: the least peak it finds is %llu bytes", (unsigned long long)peak);
  if (status == NEAP_OK) status = add_candidate(p, &least, false);
  schedule_free(&least);
  return status;
}

/* A small step is searched whole, for some hundredths of a second. */
static neap_status plan_exactly(const struct planning *p, struct schedule *out, bool *found) {
  int64_t work = PEBBLING_WORK;
  *found = false;
  return p->step->node_count > PEBBLING_NODES ? NEAP_OK
                                              : pebble_cheapest(p->step, p->limit, &work, out, found);
}

/* In the order of the step. `falls_back`: to the least plan, where no start fits the limit. */
static neap_status plan_in_order(struct planning *p, bool falls_back, struct outcome *out) {
  *out = (struct outcome){.cost = INFINITY};
  neap_status status = start(p);
  if (status == NEAP_OK && !any_fits(p))
    status = falls_back ? add_least(p)
                        : neap_fail(NEAP_OVER_BUDGET, "neap: found no schedule within %llu bytes of values",
                                    (unsigned long long)p->limit);
  if (status == NEAP_OK) status = improve(p, out);
  free_candidates(p);
  if (status == NEAP_OK) status = find_cost(p->step, &out->best, &out->cost);
  return status;
}

/* In the order of the leaner step, in half of what time there is. That it finds nothing is no failure. */
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

/* The cheaper of both orders, where one is leaner. Where that leads to what cannot be better, or a quick look
 * has seen enough, the other is not asked. */
static neap_status plan_in_orders(struct planning *p, struct outcome *out) {
  if (p->leaner == NULL) return plan_in_order(p, true, out);
  TRY(plan_leaner(p, out));
  const bool found = out->cost < INFINITY;
  if (out->cost <= p->step->base_cost || (found && p->options->quick)) return NEAP_OK;
  struct outcome given;
  neap_status status = plan_in_order(p, !found, &given);
  if (given.cost < out->cost) {
    const struct outcome swap = *out;
    *out = given;
    given = swap;
  }
  free_outcome(&given);
  return status == NEAP_OVER_BUDGET && found ? NEAP_OK : status;
}

/* Where recomputation is deep the least plan, improved within the limit, may be the better start: searches
 * that begin elsewhere can end far above what a little less memory costs. */
static neap_status plan_from_least(const struct planning *p, struct outcome *out) {
  enum { NODES = 200 }; /* of more the least takes seconds */
  static const double deep = 1.4;
  if (p->options->quick || p->step->node_count > NODES || out->cost <= deep * p->step->base_cost ||
      time_is_up(p))
    return NEAP_OK;
  struct planning below = planning_of(p->step, p->limit, p->options);
  below.told = p->told;
  struct outcome other = {.cost = INFINITY};
  neap_status status = add_least(&below);
  if (status == NEAP_OK) status = improve(&below, &other);
  free_candidates(&below);
  if (status == NEAP_OK) status = find_cost(p->step, &other.best, &other.cost);
  if (status == NEAP_OK && other.cost < out->cost) {
    const struct outcome swap = *out;
    *out = other;
    other = swap;
  }
  free_outcome(&other);
  return status == NEAP_OVER_BUDGET ? NEAP_OK : status;
}

static neap_status plan_step(const neap_step *step, uint64_t limit, const struct planner_options *options,
                             struct schedule *out) {
  struct planning p = planning_of(step, limit, options);
  bool found;
  TRY(plan_exactly(&p, out, &found));
  if (found) return NEAP_OK;
  struct reordered_step leaner;
  struct outcome outcome = {0};
  neap_status status = leaner_step_create(step, &leaner);
  p.leaner = leaner.step != NULL ? &leaner : NULL;
  if (status == NEAP_OK) status = plan_in_orders(&p, &outcome);
  if (status == NEAP_OK) status = plan_from_least(&p, &outcome);
  if (status == NEAP_OK) swap_schedules(out, &outcome.best);
  if (status == NEAP_OK && options->runner_up != NULL) swap_schedules(options->runner_up, &outcome.runner_up);
  free_outcome(&outcome);
  reordered_step_free(&leaner);
  return status;
}

/* A step with more or larger values than can be searched is one that the row does not take. */
static neap_status take(neap_status status) {
  return status == NEAP_TOO_LARGE ? neap_fail(NEAP_OVER_BUDGET, "%s", neap_error_message()) : status;
}

/* The step is planned in mirrored order, where that is clearly better than the one that was given. */
neap_status plan_neap(const neap_step *step, uint64_t budget, const struct planner_options *options,
                      struct schedule *out) {
  RETURN_IF(budget < plan_lower_bound(step), NEAP_OVER_BUDGET,
            "neap: every schedule needs more than %llu bytes", (unsigned long long)budget);
  const uint64_t limit = budget - step->resident_bytes;
  struct reordered_step mirrored;
  neap_status status = mirrored_step_create(step, &mirrored);
  if (status == NEAP_OK)
    status = plan_step(mirrored.step != NULL ? mirrored.step : step, limit, options, out);
  if (mirrored.step != NULL) {
    reordered_step_rename(&mirrored, out);
    if (options->runner_up != NULL) reordered_step_rename(&mirrored, options->runner_up);
  }
  reordered_step_free(&mirrored);
  return take(status);
}

neap_status plan_neap_least(const neap_step *step, uint64_t budget, const struct planner_options *options,
                            struct schedule *out) {
  (void)budget;
  struct reordered_step mirrored;
  neap_status status = mirrored_step_create(step, &mirrored);
  if (status == NEAP_OK) status = give_least(mirrored.step != NULL ? mirrored.step : step, options, out);
  if (mirrored.step != NULL) reordered_step_rename(&mirrored, out);
  reordered_step_free(&mirrored);
  return take(status);
}
