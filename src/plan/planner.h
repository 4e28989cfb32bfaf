/* The planner table: a planner is one function and one row. No planner knows another. */
#ifndef NEAP_PLAN_PLANNER_H
#define NEAP_PLAN_PLANNER_H

#include "graph/step.h"
#include "plan/schedule.h"

struct planner_options {
  bool quick;     /* only whether the budget can be met counts, not the cost */
  double seconds; /* wall-clock time after which the best so far is given; 0: no limit, and deterministic */
};

/* Finds a schedule whose simulated peak, resident bytes included, is at most `budget`, as cheap as the
 * planner can. NEAP_OVER_BUDGET where it finds none; then `out` holds the schedule with the least peak that
 * it met (possibly empty). `out` starts empty. Deterministic. Other failures leave `out` empty. */
typedef neap_status planner_function(const neap_step *step, uint64_t budget,
                                     const struct planner_options *options, struct schedule *out);

struct planner {
  const char *name, *summary;
  const char *source;  /* paper, section; NULL: none */
  const char *graphs;  /* which it takes */
  const char *promise; /* what holds for its schedules, beyond being valid */
  int32_t auto_limit;  /* `auto` asks this row for steps of at most so many nodes */
  bool finds_least;    /* asked for 0 bytes it gives the least it can do: there is no need to ask for more */
  planner_function *plan;
};

extern const struct planner planners[];
extern const int32_t planner_count;

const struct planner *planner_find(const char *name); /* NULL: no such row */

/* Lower bound on the peak of any plan, resident bytes included: no valid schedule needs less. */
uint64_t plan_lower_bound(const neap_step *step);

#endif
