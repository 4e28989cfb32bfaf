/* Keeping everything: what all else is measured against. */
#ifndef NEAP_SEARCH_KEEP_ALL_H
#define NEAP_SEARCH_KEEP_ALL_H

#include "step/planner.h"

/* The step's own order, each node once. NEAP_OVER_BUDGET where that does not fit. */
planner_function plan_keep_all;

#endif
