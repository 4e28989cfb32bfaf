/* Feng and Huang 2018: the planner. */
#ifndef NEAP_PAPERS_FENG_HUANG_H
#define NEAP_PAPERS_FENG_HUANG_H

#include "step/planner.h"

planner_function plan_feng_huang;

#endif
