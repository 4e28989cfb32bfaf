/* The search for the least memory: see neap_least.h. */
#include "search/neap_least.h"

#include "base/parallel.h"
#include "base/stop.h"
#include "search/evict.h"
#include "search/keep_all.h"
#include "search/pebbling.h"
#include "search/planning.h"
#include "search/rotor_plan.h"
#include "step/planner.h"
#include "step/tuning.h"

/* ---- One attempt ---- */

/* Returns the work of each of the searches below: twice that of a plan, except in a large step, where it
 * brings little. */
static int64_t work_for_least(const struct planning *p) {
  return 2 * p->work < LEAST_WORK_MOST ? 2 * p->work : LEAST_WORK_MOST;
}

/* Tries once to bring the peak of a schedule below a limit; a schedule that it finds replaces the given
 * one. */
typedef neap_status lower_function(struct planning *p, uint64_t limit, struct schedule *best, bool *met);

static neap_status lower_by_row(const struct planning *p, planner_function *row, uint64_t limit,
                                struct schedule *best, bool *met) {
  const struct planner_options quick = {.effort = EFFORT_QUICK};
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

static neap_status lower_by_any_search(struct planning *p, uint64_t limit, bool radial, struct schedule *best,
                                       bool *met) {
  struct search *search;
  TRY(search_create(p->step, limit, best, 1, &search));
  const int64_t work = work_for_least(p) / 16;
  search->drifts = true;
  search->radial = radial;
  neap_status status = search_descend(search, work);
  if (status == NEAP_OK) status = search_rebuild(search, work, 0, true);
  *met = status == NEAP_OK && search->timeline.excess == 0;
  if (*met) status = search_result(search, best);
  p->spent += search->timeline.work;
  search_free(search);
  return status;
}

static neap_status lower_by_search(struct planning *p, uint64_t limit, struct schedule *best, bool *met) {
  return lower_by_any_search(p, limit, false, best, met);
}

static neap_status lower_by_radial_search(struct planning *p, uint64_t limit, struct schedule *best,
                                          bool *met) {
  return lower_by_any_search(p, limit, true, best, met);
}

static neap_status lower_from_start(struct planning *p, const neap_step *step, uint64_t limit,
                                    struct schedule *best, bool *met) {
  struct planning below = planning_of(step, limit, p->options);
  neap_status status = planning_start(&below);
  *met = status == NEAP_OK && planning_fits(&below);
  if (*met) status = search_result(planning_best(&below), best);
  p->spent += below.spent;
  planning_free(&below);
  return status;
}

/* Starts as plan_neap() does, in both orders. */
static neap_status lower_by_start(struct planning *p, uint64_t limit, struct schedule *best, bool *met) {
  TRY(lower_from_start(p, p->step, limit, best, met));
  if (*met || p->leaner == NULL) return NEAP_OK;
  TRY(lower_from_start(p, p->leaner->step, limit, best, met));
  if (*met) reordered_step_rename(p->leaner, best);
  return NEAP_OK;
}

static neap_status lower_by_pebbling(struct planning *p, uint64_t limit, struct schedule *best, bool *met) {
  int64_t left = LEAST_PEBBLING_WORK;
  struct schedule schedule = {0};
  TRY(pebble(p->step, limit, &left, &schedule, met));
  p->spent += (LEAST_PEBBLING_WORK - left) / LEAST_PEBBLING_UNITS;
  if (*met) swap_schedules(best, &schedule);
  schedule_free(&schedule);
  return NEAP_OK;
}

/* ---- The way down ---- */

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

/* Goes down from the last rung in steps, which are shares of the live bytes and become smaller after a
 * failure. On free threads, each step is tried together with the one that would follow its failure; the
 * result is the same. */
static neap_status squeeze(struct planning *p, lower_function *lower, const struct steps_down *steps,
                           struct descent *descent) {
  enum { AT_ONCE = 2 };
  const int count = threads_for(AT_ONCE);
  double shrink = steps->first;
  neap_status status = NEAP_OK;
  p->spent = 0;
  while (status == NEAP_OK && shrink >= steps->least && p->spent <= work_for_least(p)) {
    const struct rung *last = descent_least(descent);
    const uint64_t live = last->peak_bytes - p->step->resident_bytes;
    if (live == 0) break;
    struct lowering tried[AT_ONCE];
    struct ending ended[AT_ONCE];
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request) num_threads(count)
    for (int i = 0; i < count; i++) {
      const uint64_t cut = (uint64_t)((double)live * shrink / (1 << i));
      ending_keep(&ended[i], run_lowering(&tried[i], p, lower, live - (cut > 0 ? cut : 1), &last->schedule));
    }
    status = status_of_tasks(ended, count);
    bool met = false;
    for (int i = 0; i < count; i++) {
      const bool due = status == NEAP_OK && !met && shrink >= steps->least && p->spent <= work_for_least(p);
      if (due) p->spent += tried[i].planning.spent;
      if (due && tried[i].met) status = descent_add(descent, p->step, &tried[i].schedule);
      if (due && !tried[i].met) shrink /= 2;
      met = met || (due && tried[i].met);
      schedule_free(&tried[i].schedule);
    }
  }
  return status;
}

/* Goes down with each kind of search alone: if one is stuck early the other often is not. */
static neap_status search_for_least(struct planning *p, struct descent *descent) {
  enum { KINDS = 2 };
  static lower_function *const kinds[KINDS] = {lower_by_search, lower_by_radial_search};
  struct descent ways[KINDS] = {{{0}}};
  struct ending ended[KINDS];
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request) num_threads(threads_for(KINDS))
  for (int i = 0; i < KINDS; i++) {
    struct planning each = *p;
    neap_status status = descent_add(&ways[i], p->step, &descent_least(descent)->schedule);
    if (status == NEAP_OK) status = squeeze(&each, kinds[i], &LEAST_BY_SEARCH, &ways[i]);
    ending_keep(&ended[i], status);
  }
  neap_status status = status_of_tasks(ended, KINDS);
  for (int i = 0; i < KINDS; i++) {
    if (status == NEAP_OK) status = descent_add_all(descent, p->step, &ways[i]);
    descent_free(&ways[i]);
  }
  return status;
}

/* Tries the step as a chain, and evicting: for some steps these find less. Then the search goes on from
 * there. */
static neap_status look_beside(struct planning *p, struct descent *descent) {
  const uint64_t before = descent_least(descent)->peak_bytes;
  TRY(squeeze(p, lower_by_rotor, &LEAST_BY_CHAIN_AGAIN, descent));
  TRY(squeeze(p, lower_by_evict, &LEAST_BY_EVICT, descent));
  return descent_least(descent)->peak_bytes < before ? search_for_least(p, descent) : NEAP_OK;
}

static neap_status descend(struct planning *p, struct descent *descent) {
  TRY(squeeze(p, lower_by_rotor, &LEAST_BY_CHAIN, descent));
  TRY(search_for_least(p, descent));
  if (p->step->node_count <= LARGE_STEP) TRY(look_beside(p, descent));
  TRY(squeeze(p, lower_by_start, &LEAST_BY_START, descent));
  return p->step->node_count > LEAST_PEBBLING_NODES
             ? NEAP_OK
             : squeeze(p, lower_by_pebbling, &LEAST_BY_PEBBLING, descent);
}

static neap_status keep_all_first(const neap_step *step, struct descent *out) {
  const struct planner_options quick = {.effort = EFFORT_QUICK};
  struct schedule schedule = {0};
  neap_status status = plan_keep_all(step, UINT64_MAX, &quick, &schedule);
  if (status == NEAP_OK) status = descent_add(out, step, &schedule);
  schedule_free(&schedule);
  return status;
}

neap_status find_descent(const neap_step *step, int64_t work, struct descent *out) {
  const struct planner_options quick = {.effort = EFFORT_QUICK, .work = work};
  struct planning p = planning_of(step, 0, &quick);
  struct reordered_step leaner;
  neap_status status = leaner_step_create(step, &leaner);
  p.leaner = leaner.step != NULL ? &leaner : NULL;
  if (status == NEAP_OK) status = keep_all_first(step, out);
  if (status == NEAP_OK) status = descend(&p, out);
  if (status != NEAP_OK) descent_free(out);
  reordered_step_free(&leaner);
  return status;
}
