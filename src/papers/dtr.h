/* Kirisame et al. 2021, Dynamic Tensor Rematerialization: the planner. */
#ifndef NEAP_PAPERS_DTR_H
#define NEAP_PAPERS_DTR_H

#include "step/planner.h"

planner_function plan_dtr;

#endif
