/* The planner `pofo`: a step as a chain whose values are kept, made again or stored (papers/pofo.h). */
#ifndef NEAP_PAPERS_POFO_PLAN_H
#define NEAP_PAPERS_POFO_PLAN_H

#include "step/planner.h"

planner_function plan_pofo;

#endif
