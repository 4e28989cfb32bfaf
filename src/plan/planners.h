/* The functions of the planner table, a row each. */
#ifndef NEAP_PLAN_PLANNERS_H
#define NEAP_PLAN_PLANNERS_H

#include "plan/planner.h"

planner_function plan_keep_all;                                         /* planners.c */
planner_function plan_chen_sqrt, plan_chen_greedy, plan_chen_recursive; /* chen.c */
planner_function plan_revolve, plan_bptt, plan_hong_n3, plan_hong;      /* chain_rows.c */
planner_function plan_rotor;                                            /* rotor_plan.c */
planner_function plan_evict;                                            /* evict.c */
planner_function plan_checkmate;                                        /* checkmate.c */

planner_function plan_neap, plan_neap_least;         /* neap.c */
planner_function plan_kusumoto_exact, plan_kusumoto; /* kusumoto.c */
planner_function plan_feng_huang;                    /* feng_huang.c */
planner_function plan_dtr;                           /* dtr.c */

#endif
