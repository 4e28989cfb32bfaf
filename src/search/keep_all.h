/* The planner that keeps everything: all others are compared with it. */
#ifndef NEAP_SEARCH_KEEP_ALL_H
#define NEAP_SEARCH_KEEP_ALL_H

#include "step/planner.h"

/* Gives the step's own order, each node once. NEAP_OVER_BUDGET: that does not fit. */
planner_function plan_keep_all;

#endif
