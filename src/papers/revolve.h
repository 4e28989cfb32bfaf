/* Griewank and Walther 2000, algorithm 799 (Revolve): checkpointing of a chain whose steps are alike. Stages
 * are 0 .. steps - 1. */
#ifndef NEAP_PAPERS_REVOLVE_H
#define NEAP_PAPERS_REVOLVE_H

#include "base/status.h"
#include "search/chain_operation.h"
#include "step/planner.h"

/* Least number of forward steps, beside the one in front of each backward step, that reverse a chain of
 * `steps` with `slots` checkpoints, the chain's input included: r * steps - C(slots + r, r - 1), r being the
 * least number of repetitions with C(slots + r, slots) >= steps. Both at least 1. */
int64_t revolve_forward_steps(int64_t steps, int32_t slots);

/* A schedule with this many, appended to `out`. */
neap_status revolve_operations(int32_t steps, int32_t slots, chain_operations *out);

/* The row: a step as a chain, by the number of slots. */
planner_function plan_revolve;

#endif
