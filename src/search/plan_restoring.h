/* Plans of steps whose values may be restored (step/step.h). */
#ifndef NEAP_SEARCH_PLAN_RESTORING_H
#define NEAP_SEARCH_PLAN_RESTORING_H

#include "step/planner.h"

/* Searches with the transfers as nodes that run themselves, at several factors of their costs: at a low one
 * the lane is taken as free, at 1 as if all else waited for it. Takes the schedule that is the cheapest with
 * the lane. */
planner_function plan_restoring;

#endif
