/* The rows that choose checkpoints of a chain by counts or by peak alone. */
#ifndef NEAP_PAPERS_CHAIN_ROWS_H
#define NEAP_PAPERS_CHAIN_ROWS_H

#include "step/planner.h"

planner_function plan_revolve, plan_bptt, plan_hong_n3, plan_hong;

#endif
