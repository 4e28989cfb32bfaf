/* Neap's own planner: several schedules are searched side by side, from keeping everything and from what
 * simpler planners start with, and the better half goes on until the work is spent (docs/design.md, "The
 * search"). */
#include <math.h>
#include <string.h>
#include <time.h>

#include "plan/planners.h"
#include "plan/search.h"

enum { CANDIDATES = 4 };

/* Of a whole plan, in units of the timeline: a few hundredths of a second for ten nodes, below a second for a
 * few hundred, a few seconds for ten thousand. */
static int64_t work_for(int64_t nodes) {
  enum { SMALL = 300, EACH = 46000, EACH_MORE = 6000 };
  return nodes < SMALL ? nodes * EACH : (int64_t)SMALL * EACH + (nodes - SMALL) * EACH_MORE;
}

struct planning {
  const neap_step *step;
  uint64_t limit;      /* bytes of values */
  int64_t work, spent; /* in all; by the descents */
  double deadline;
  bool quick;
  struct search *candidates[CANDIDATES + 1]; /* the best first, once they are ranked */
  int count;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool any_fits(const struct planning *p) {
  for (int i = 0; i < p->count; i++)
    if (p->candidates[i]->timeline.excess == 0) return true;
  return false;
}

static bool done(const struct planning *p) {
  return (p->quick && any_fits(p)) || (p->deadline > 0 && now() >= p->deadline);
}

static neap_status add_candidate(struct planning *p, const struct schedule *start) {
  struct search *search = malloc(sizeof *search);
  RETURN_IF(search == NULL, NEAP_OUT_OF_MEMORY, "neap: out of memory");
  const neap_status status = search_create(p->step, p->limit, start, (uint32_t)p->count + 1, search);
  p->candidates[p->count++] = search;
  if (status != NEAP_OK) return status;
  TRY(search_descend(search, p->work / 2));
  p->spent += search->timeline.work;
  return NEAP_OK;
}

/* The step's own order, with different random numbers, and what the walk of `evict` gives. */
static neap_status start(struct planning *p) {
  struct schedule schedule = {0};
  const struct planner_options quick = {.quick = true};
  neap_status status = plan_keep_all(p->step, UINT64_MAX, &quick, &schedule);
  while (status == NEAP_OK && p->count < CANDIDATES && p->spent < p->work / 4 && !done(p))
    status = add_candidate(p, &schedule);
  schedule.nodes.count = 0;
  if (status == NEAP_OK && !any_fits(p) && !done(p)) {
    status = plan_evict(p->step, p->step->resident_bytes + p->limit, &quick, &schedule);
    const bool found = status == NEAP_OK;
    if (status == NEAP_OVER_BUDGET) status = NEAP_OK;
    if (found) status = add_candidate(p, &schedule);
  }
  schedule_free(&schedule);
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

static neap_status race(struct planning *p) {
  const int64_t work = p->work > p->spent ? p->work - p->spent : 0;
  for (int left = p->count; left > 0 && !done(p); left /= 2) {
    const int64_t share = work / 4 / left * (left == 1 ? 2 : 1);
    for (int i = 0; i < left && !done(p); i++)
      TRY(search_rebuild(p->candidates[i], share, p->deadline, p->quick));
    rank(p);
  }
  return NEAP_OK;
}

static neap_status plan_for_limit(struct planning *p, struct schedule *out, bool *met) {
  TRY(start(p));
  rank(p);
  TRY(race(p));
  rank(p);
  *met = p->candidates[0]->timeline.excess == 0;
  return search_result(p->candidates[0], out);
}

/* ---- The least ---- */

/* One attempt to bring the peak of a schedule below a limit; what is found takes the schedule's place. */
static neap_status lower(struct planning *p, struct search *search, uint64_t limit, struct schedule *best,
                         bool *met) {
  p->limit = limit;
  neap_status status = search_create(p->step, limit, best, 1, search);
  if (status == NEAP_OK) status = search_descend(search, p->work / 16);
  if (status == NEAP_OK) status = search_rebuild(search, p->work / 32, p->deadline, true);
  *met = status == NEAP_OK && search->timeline.excess == 0;
  if (*met) status = search_result(search, best);
  p->spent += search->timeline.work;
  search_free(search);
  return status;
}

/* From keeping everything down in steps that become smaller where one fails. It hangs on the step alone, not
 * on a budget: so a budget is met exactly when it is no smaller than the peak of this. */
static neap_status plan_least(struct planning *p, struct schedule *best, uint64_t *peak) {
  struct search *search = malloc(sizeof *search);
  RETURN_IF(search == NULL, NEAP_OUT_OF_MEMORY, "neap: out of memory");
  const struct planner_options quick = {.quick = true};
  struct simulation score;
  best->nodes.count = 0;
  p->spent = 0;
  neap_status status = plan_keep_all(p->step, UINT64_MAX, &quick, best);
  double shrink = 0.3;
  while (status == NEAP_OK) {
    status = simulate(p->step, best->nodes.data, (int32_t)best->nodes.count, &score);
    if (status != NEAP_OK || shrink < 0.002 || p->spent > p->work ||
        score.peak_bytes == p->step->resident_bytes)
      break;
    const uint64_t live = score.peak_bytes - p->step->resident_bytes;
    uint64_t cut = (uint64_t)((double)live * shrink);
    if (cut == 0) cut = 1;
    bool met;
    status = lower(p, search, live - cut, best, &met);
    if (!met) shrink /= 2;
  }
  *peak = score.peak_bytes;
  free(search);
  return status;
}

neap_status plan_neap(const neap_step *step, uint64_t budget, const struct planner_options *options,
                      struct schedule *out) {
  struct planning p = {.step = step,
                       .limit = budget > step->resident_bytes ? budget - step->resident_bytes : 0,
                       .work = work_for(step->node_count),
                       .deadline = options->seconds > 0 ? now() + options->seconds : 0,
                       .quick = options->quick};
  neap_status status = NEAP_OK;
  bool met = false;
  if (budget >= plan_lower_bound(step)) status = plan_for_limit(&p, out, &met);
  for (int i = 0; i < p.count; i++) {
    search_free(p.candidates[i]);
    free(p.candidates[i]);
  }
  if (status != NEAP_OK || met) return status;
  uint64_t least = 0;
  TRY(plan_least(&p, out, &least));
  RETURN_IF(least > budget, NEAP_OVER_BUDGET, "neap: the least peak it finds is %llu bytes",
            (unsigned long long)least);
  return NEAP_OK;
}
