/* Kusumoto, Inoue, Watanabe, Akiba, Koyama 2019: the planners. */
#ifndef NEAP_PAPERS_KUSUMOTO_H
#define NEAP_PAPERS_KUSUMOTO_H

#include "step/planner.h"

planner_function plan_kusumoto_exact, plan_kusumoto;

#endif
