/* Searches of one step in parallel under one limit: from keeping everything and from the schedules of simpler
 * planners. The better half goes on until the work is spent (docs/design/planning.md). */
#ifndef NEAP_SEARCH_PLANNING_H
#define NEAP_SEARCH_PLANNING_H

#include "search/node_order.h"
#include "search/search.h"
#include "step/planner.h"

enum { CANDIDATES = 4, CANDIDATE_LIMIT = CANDIDATES + 2 };

struct planning {
  const neap_step *step;
  uint64_t limit;      /* bytes of values */
  int64_t work, spent; /* in all; by the descents */
  const struct planner_options *options;
  struct search *candidates[CANDIDATE_LIMIT]; /* the best first, once they are ranked */
  int count;
  uint32_t begun;                      /* candidates so far, failed ones too: seeds of their random numbers */
  const struct reordered_step *leaner; /* the step in a leaner order, if there is one; NULL: do not ask */
  struct told {
    double cost;
    int64_t excess;
  } told; /* the best that was reported to the caller */
};

/* Returns the work of one plan, in units of the timeline: some hundredths of a second for ten nodes, less
 * than a second for a few hundred, a few seconds for ten thousand. */
int64_t planning_work(int64_t nodes);

/* Starts without candidates. Step and options stay the caller's and must outlive it. */
struct planning planning_of(const neap_step *step, uint64_t limit, const struct planner_options *options);
void planning_free(struct planning *planning);

/* Adds candidates: from the chain's optimum if the step is a chain; from the walk of `evict` if that is quick
 * or nothing fits yet; and from the step's own order, with different random numbers and ways to forget. */
neap_status planning_start(struct planning *planning);

/* Replaces planning_start if there is a schedule that needs little more: uses a quarter of the work, as most
 * of it was done. */
neap_status planning_go_on(struct planning *planning, const struct schedule *near);

/* Adds one candidate from a valid schedule and brings it towards the limit. `radial`: of its search
 * (search/search.h). */
neap_status planning_add(struct planning *planning, const struct schedule *start, bool radial);

/* Returns true if a candidate keeps the limit. */
bool planning_fits(const struct planning *planning);

/* Returns the best candidate; there must be one. */
struct search *planning_best(struct planning *planning);

/* Returns true if the time that the caller gave is over. */
bool planning_is_late(const struct planning *planning);

/* The result of a planning. */
struct outcome {
  struct schedule best, runner_up; /* the latter empty unless asked for and found */
  double cost;                     /* of the best; INFINITY: none exists */
};

void outcome_free(struct outcome *outcome);

/* Searches on with the work or time that is left, and gives the best schedule and its cost. The schedule may
 * be over the limit if no candidate kept it. There must be a candidate. `out` starts empty; pass it to
 * outcome_free, also after a failure. */
neap_status planning_improve(struct planning *planning, struct outcome *out);

#endif
