/* The planner table: a planner is one function and one row. */
#ifndef NEAP_PLAN_PLANNERS_H
#define NEAP_PLAN_PLANNERS_H

#include "step/planner.h"

struct planner {
  const char *name, *summary;
  const char *source;  /* paper, section; NULL: none */
  const char *graphs;  /* the graphs that it takes */
  const char *promise; /* a property of its schedules, beyond being valid */
  int32_t auto_limit;  /* `auto` asks this row for steps of at most this many nodes */
  bool loose;          /* if the layout of a schedule wastes memory, any other schedule near it is as good */
  planner_function *plan;
  least_function *least; /* NULL: the least is found by asking `plan` for less and less */
  bool restores;         /* it uses optional nodes (step/step.h); others plan the step without them */
};

extern const struct planner planners[];
extern const int32_t planner_count;

const struct planner *planner_find(const char *name); /* Returns the planner of this name; NULL: none */

#endif
