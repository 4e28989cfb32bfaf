/* Neap's own planner: several schedules are searched side by side, from keeping everything and from what
 * simpler planners start with, and the better half goes on until the work is spent (docs/design.md, "The
 * search"). */
#include <math.h>
#include <string.h>
#include <time.h>

#include "plan/planners.h"
#include "plan/search.h"

/* Work of a whole plan: a constant and so much a node, in units of the timeline: below a second for a few
 * hundred nodes, a few seconds for ten thousand. */
enum { CANDIDATES = 4, WORK = 12000000, WORK_PER_NODE = 6000 };

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

/* The least limit that the best candidate can be brought below, in ever smaller steps. */
__attribute__((unused)) static neap_status squeeze(struct planning *p) {
  struct search *search = p->candidates[0];
  struct schedule best = {0};
  neap_status status = search_result(search, &best);
  uint64_t peak = (uint64_t)timeline_peak(&search->timeline);
  const int64_t end = search->timeline.work + p->work;
  for (double step = 0.05; status == NEAP_OK && step > 0.0005 && search->timeline.work < end;) {
    timeline_set_limit(&search->timeline, (uint64_t)((double)peak * (1 - step)));
    status = search_rebuild(search, p->work / 16, p->deadline, true);
    if (status == NEAP_OK && search->timeline.excess == 0) {
      peak = (uint64_t)timeline_peak(&search->timeline);
      status = search_result(search, &best);
    } else {
      step /= 2;
    }
  }
  if (status == NEAP_OK) {
    p->limit = peak;
    search_free(search);
    status = search_create(p->step, peak, &best, 1, search);
  }
  schedule_free(&best);
  return status;
}

static neap_status plan(struct planning *p) {
  TRY(start(p));
  rank(p);
  TRY(race(p));
  rank(p);
  return NEAP_OK;
}

neap_status plan_neap(const neap_step *step, uint64_t budget, const struct planner_options *options,
                      struct schedule *out) {
  struct planning p = {.step = step,
                       .limit = budget > step->resident_bytes ? budget - step->resident_bytes : 0,
                       .work = WORK + (int64_t)WORK_PER_NODE * step->node_count,
                       .deadline = options->seconds > 0 ? now() + options->seconds : 0,
                       .quick = options->quick};
  neap_status status = plan(&p);
  if (status == NEAP_OK) status = search_result(p.candidates[0], out);
  const bool met =
      status == NEAP_OK && p.candidates[0]->timeline.excess == 0 && budget >= step->resident_bytes;
  for (int i = 0; i < p.count; i++) {
    search_free(p.candidates[i]);
    free(p.candidates[i]);
  }
  if (status != NEAP_OK || met) return status;
  return neap_fail(NEAP_OVER_BUDGET, "neap: found no schedule within %llu bytes", (unsigned long long)budget);
}
