/* Searches in parallel under one limit: see planning.h. */
#include "search/planning.h"

#include <math.h>
#include <omp.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "search/evict.h"
#include "search/keep_all.h"
#include "search/rotor_plan.h"
#include "step/simulate.h"
#include "step/tuning.h"

int64_t planning_work(int64_t nodes) {
  return nodes < PLAN_WORK_NODES
             ? nodes * PLAN_WORK_EACH
             : (int64_t)PLAN_WORK_NODES * PLAN_WORK_EACH + (nodes - PLAN_WORK_NODES) * PLAN_WORK_EACH_MORE;
}

static int64_t limited(int64_t work, int64_t limit) { return limit > 0 && limit < work ? limit : work; }

struct planning planning_of(const neap_step *step, uint64_t limit, const struct planner_options *options) {
  return (struct planning){.step = step,
                           .limit = limit,
                           .work = limited(planning_work(step->node_count), options->work),
                           .options = options,
                           .told = {INFINITY, INT64_MAX}};
}

void planning_free(struct planning *p) {
  for (int i = 0; i < p->count; i++) search_free(p->candidates[i]);
}

bool planning_fits(const struct planning *p) {
  for (int i = 0; i < p->count; i++)
    if (p->candidates[i]->timeline.excess == 0) return true;
  return false;
}

static bool is_quick(const struct planning *p) { return p->options->effort == EFFORT_QUICK; }

bool planning_is_late(const struct planning *p) { return clock_is_past(p->options->deadline); }

static bool done(const struct planning *p) {
  for (int i = 0; i < p->count; i++)
    if (search_is_optimal(p->candidates[i])) return true;
  return (is_quick(p) && planning_fits(p)) || planning_is_late(p);
}

static neap_status mend(const struct planning *p, struct search *search) {
  const bool needed = search->timeline.excess > 0 && !is_quick(p);
  return needed ? search_mend(search, p->work / 4) : NEAP_OK;
}

/* Starts a search from a valid schedule and brings it towards the limit. */
static neap_status descend_from(const struct planning *p, const struct schedule *start, uint32_t seed,
                                bool radial, struct search **out) {
  struct search *search;
  TRY(search_create(p->step, p->limit, start, seed, &search));
  *out = search;
  search->radial = radial;
  TRY(search_descend(search, p->work / 2));
  return p->step->node_count > LARGE_STEP ? NEAP_OK : mend(p, search);
}

/* Mends all candidates only if none fits, as this takes seconds in a large step. */
static neap_status mend_all(struct planning *p) {
  for (int i = 0; i < p->count; i++) {
    const int64_t before = p->candidates[i]->timeline.work;
    if (!planning_fits(p)) TRY(mend(p, p->candidates[i]));
    p->spent += p->candidates[i]->timeline.work - before;
  }
  return NEAP_OK;
}

/* Takes ownership of the search; NULL: none. */
static void enter(struct planning *p, struct search *search) {
  if (search == NULL) return;
  p->candidates[p->count++] = search;
  p->spent += search->timeline.work;
}

neap_status planning_add(struct planning *p, const struct schedule *start, bool radial) {
  struct search *search = NULL;
  const neap_status status = descend_from(p, start, ++p->begun, radial, &search);
  enter(p, search);
  return status;
}

/* The start of a candidate: another planner's schedule within the limit, a schedule that needs little more,
 * or the step as it is. */
struct start {
  planner_function *row;       /* NULL: no row */
  const struct schedule *near; /* NULL, and no row: everything is kept */
  bool radial;
  enum effort effort;
  uint32_t seed;
  struct search *search; /* that it led to; NULL: the row has no plan, which is no failure */
};

static neap_status go_on_from(const struct planning *p, struct start *start) {
  TRY(search_create(p->step, p->limit, start->near, start->seed, &start->search));
  return search_mend(start->search, p->work / 4);
}

static neap_status run_start(const struct planning *p, struct start *start) {
  if (start->near != NULL) return go_on_from(p, start);
  const struct planner_options options = {.effort = start->effort};
  struct schedule schedule = {0};
  neap_status status = start->row == NULL
                           ? plan_keep_all(p->step, UINT64_MAX, &options, &schedule)
                           : start->row(p->step, p->step->resident_bytes + p->limit, &options, &schedule);
  if (status == NEAP_OK) status = descend_from(p, &schedule, start->seed, start->radial, &start->search);
  schedule_free(&schedule);
  return status == NEAP_OVER_BUDGET ? NEAP_OK : status;
}

/* Returns true if there is time for this start and, in a quick look, no start before it found a schedule that
 * fits. */
static bool is_due(const struct planning *p, const struct start *starts, int which) {
  if (which > 0 && planning_is_late(p)) return false;
  for (int i = 0; is_quick(p) && i < which; i++)
    if (starts[i].search != NULL && starts[i].search->timeline.excess == 0) return false;
  return true;
}

static neap_status run_starts(struct planning *p, struct start *starts, int count) {
  struct ending ended[CANDIDATES] = {{NEAP_OK, ""}};
  for (int i = 0; i < count; i++) starts[i].seed = ++p->begun;
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request)                                           \
    num_threads(is_quick(p) ? 1 : threads_for(count))
  for (int i = 0; i < count; i++)
    if (is_due(p, starts, i)) ending_keep(&ended[i], run_start(p, &starts[i]));
  for (int i = 0; i < count; i++) enter(p, starts[i].search);
  return status_of_tasks(ended, count);
}

neap_status planning_start(struct planning *p) {
  const bool large = p->step->node_count > LARGE_STEP;
  const enum effort effort = p->options->effort;
  struct start first[CANDIDATES] = {{.row = plan_rotor, .effort = effort}};
  int count = 1;
  if (!large) first[count++] = (struct start){.row = plan_evict, .effort = effort};
  first[count++] = (struct start){.radial = true, .effort = EFFORT_QUICK};
  TRY(run_starts(p, first, count));
  while (p->count < CANDIDATES && p->spent < p->work / 4 && !done(p)) {
    struct start another = {.effort = EFFORT_QUICK};
    TRY(run_starts(p, &another, 1));
  }
  if (large) TRY(mend_all(p));
  struct start last = {.row = plan_evict, .effort = EFFORT_QUICK};
  return large && !planning_fits(p) && !done(p) ? run_starts(p, &last, 1) : NEAP_OK;
}

neap_status planning_go_on(struct planning *p, const struct schedule *near) {
  struct start starts[PLAN_NEAR_STARTS] = {{.near = near}, {.near = near}};
  p->work /= PLAN_NEAR_SHARE;
  return run_starts(p, starts, PLAN_NEAR_STARTS);
}

static void rank(struct planning *p) {
  for (int i = 1; i < p->count; i++)
    for (int k = i; k > 0 && search_better(p->candidates[k], p->candidates[k - 1]); k--) {
      struct search *swap = p->candidates[k];
      p->candidates[k] = p->candidates[k - 1];
      p->candidates[k - 1] = swap;
    }
}

struct search *planning_best(struct planning *p) {
  rank(p);
  return p->candidates[0];
}

/* Reports the best so far to the caller, on its own thread. */
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

/* Runs one candidate for this much work, in pieces with a report after each. */
static neap_status advance(struct planning *p, struct search *search, int64_t work) {
  enum { PIECE = 1 << 20 };
  const bool quick = is_quick(p);
  for (int64_t left = work; left > 0; left -= PIECE) {
    if (search_is_optimal(search) || (quick && search->timeline.excess == 0) || planning_is_late(p)) break;
    TRY(search_tidy(search));
    TRY(search_rebuild(search, left < PIECE ? left : PIECE, p->options->deadline, quick));
    report(p, search);
  }
  return NEAP_OK;
}

/* Runs the first `count` candidates, each for this much work. None looks at another, so the plan is the same
 * for any number of threads. A quick look takes the first that fits. */
static neap_status advance_all(struct planning *p, int count, int64_t work) {
  struct ending ended[CANDIDATE_LIMIT] = {{NEAP_OK, ""}};
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request)                                           \
    num_threads(is_quick(p) ? 1 : threads_for(count))
  for (int i = 0; i < count; i++)
    if (!(is_quick(p) && planning_fits(p))) ending_keep(&ended[i], advance(p, p->candidates[i], work));
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

/* If the caller gave time, the best two share the rest of it. */
static neap_status go_on(struct planning *p) {
  while (p->options->effort == EFFORT_LONG && !done(p)) {
    const int count = p->count < 2 ? p->count : 2;
    for (int i = 0; i < count; i++) p->candidates[i]->in_vain = 0;
    TRY(advance_all(p, count, PLAN_LONG_WORK));
    rank(p);
  }
  return NEAP_OK;
}

void outcome_free(struct outcome *outcome) {
  schedule_free(&outcome->best);
  schedule_free(&outcome->runner_up);
}

static neap_status take_runner_up(const struct planning *p, struct outcome *out) {
  if (p->options->runner_up == NULL || p->count < 2) return NEAP_OK;
  const struct timeline *best = &p->candidates[0]->timeline, *second = &p->candidates[1]->timeline;
  const bool suits = second->excess == 0 && second->cost <= best->cost * PLAN_RUNNER_UP_COST;
  return suits ? search_result(p->candidates[1], &out->runner_up) : NEAP_OK;
}

neap_status planning_improve(struct planning *p, struct outcome *out) {
  rank(p);
  TRY(race(p));
  TRY(go_on(p));
  struct search *best = planning_best(p);
  TRY(take_runner_up(p, out));
  TRY(search_result(best, &out->best));
  struct simulation score;
  TRY(simulate(p->step, out->best.nodes.data, (int32_t)out->best.nodes.count, &score));
  out->cost = score.cost;
  return NEAP_OK;
}
