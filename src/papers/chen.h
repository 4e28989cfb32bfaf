/* Chen, Xu, Zhang, Guestrin 2016, Training Deep Nets with Sublinear Memory Cost. */
#ifndef NEAP_PAPERS_CHEN_H
#define NEAP_PAPERS_CHEN_H

#include "step/planner.h"

planner_function plan_chen_sqrt, plan_chen_greedy, plan_chen_recursive; /* one planner each */

#endif
