/* Searches of one step under one limit, side by side: from keeping everything and from what simpler planners
 * start with; the better half goes on until the work is spent (docs/design/planning.md). */
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
  uint32_t begun; /* candidates so far, with those that came to nothing: seeds of their random numbers */
  const struct reordered_step *leaner; /* the step in a leaner order, where there is one; NULL: do not ask */
  struct told {
    double cost;
    int64_t excess;
  } told; /* the best that the caller was told of */
};

/* Has no candidates yet. Step and options stay the caller's and must outlive it. */
struct planning planning_of(const neap_step *step, uint64_t limit, const struct planner_options *options);
void planning_free(struct planning *planning);

/* Candidates from the chain's optimum where the step is one; from what the walk of `evict` gives, where that
 * is quick or nothing fits yet; and from the step's own order, with different random numbers and ways to
 * forget. */
neap_status planning_start(struct planning *planning);

/* In the place of planning_start, from a schedule that needs little more: for a quarter of the work, as most
 * of it was done. */
neap_status planning_go_on(struct planning *planning, const struct schedule *near);

/* One more, from a valid schedule, brought towards the limit. `radial`: of its search (search/search.h). */
neap_status planning_add(struct planning *planning, const struct schedule *start, bool radial);

/* Does a candidate keep the limit? */
bool planning_fits(const struct planning *planning);

/* The best candidate; there must be one. */
struct search *planning_best(struct planning *planning);

/* The time that the caller gave is over. */
bool planning_is_late(const struct planning *planning);

/* What a planning leads to. */
struct outcome {
  struct schedule best, runner_up; /* the latter empty, but where one is asked for and there is one */
  double cost;                     /* of the best; INFINITY: none exists */
};

void outcome_free(struct outcome *outcome);

/* Searches on with what work or time is left, and gives the best schedule, which may be over the limit where
 * no candidate kept it, and its cost. There must be a candidate. `out` starts empty and is for outcome_free,
 * also after a failure. */
neap_status planning_improve(struct planning *planning, struct outcome *out);

#endif
