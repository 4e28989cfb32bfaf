/* The functions of the planner table, a row each. */
#ifndef NEAP_PLAN_PLANNERS_H
#define NEAP_PLAN_PLANNERS_H

#include "plan/planner.h"

planner_function plan_keep_all, plan_evict;

#endif
