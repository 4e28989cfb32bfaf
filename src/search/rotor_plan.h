/* The planner `rotor`: the optimum of a step as a chain of stages (search/rotor.h). */
#ifndef NEAP_SEARCH_ROTOR_PLAN_H
#define NEAP_SEARCH_ROTOR_PLAN_H

#include "step/planner.h"

planner_function plan_rotor;

#endif
