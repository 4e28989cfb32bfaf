/* The planner `evict`: a walk through the step that drops values if memory is short. */
#ifndef NEAP_SEARCH_EVICT_H
#define NEAP_SEARCH_EVICT_H

#include "step/planner.h"

planner_function plan_evict;

#endif
