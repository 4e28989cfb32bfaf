/* The planner `neap`: Neap's own (docs/design/planning.md). */
#ifndef NEAP_SEARCH_PLAN_NEAP_H
#define NEAP_SEARCH_PLAN_NEAP_H

#include "step/planner.h"

planner_function plan_neap;
least_function plan_neap_least;

#endif
