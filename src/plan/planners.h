/* The planner table: a planner is one function and one row. */
#ifndef NEAP_PLAN_PLANNERS_H
#define NEAP_PLAN_PLANNERS_H

#include "step/planner.h"

struct planner {
  const char *name, *summary;
  const char *source;  /* paper, section; NULL: none */
  const char *graphs;  /* which it takes */
  const char *promise; /* what holds for its schedules, beyond being valid */
  int32_t auto_limit;  /* `auto` asks this row for steps of at most this many nodes */
  bool loose;          /* where the layout of a schedule wastes memory, any other near it will do */
  planner_function *plan;
  least_function *least; /* NULL: whoever wants the least asks `plan` for less and less */
};

extern const struct planner planners[];
extern const int32_t planner_count;

const struct planner *planner_find(const char *name); /* NULL: no such row */

#endif
