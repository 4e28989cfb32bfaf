/* Griewank and Walther 2000, algorithm 799 (Revolve): checkpointing of a chain of equal steps. Stages are 0
 * .. steps - 1. */
#ifndef NEAP_PAPERS_REVOLVE_H
#define NEAP_PAPERS_REVOLVE_H

#include "base/status.h"
#include "search/chain_operation.h"
#include "step/planner.h"

/* Returns the least number of forward steps, besides the one before each backward step, that reverse a chain
 * of `steps` with `slots` checkpoints, the chain's input included: r * steps - C(slots + r, r - 1), r being
 * the least number of repetitions with C(slots + r, slots) >= steps. Both must be at least 1. */
int64_t revolve_forward_steps(int64_t steps, int32_t slots);

/* Appends to `out` a schedule with this number of forward steps. */
neap_status revolve_operations(int32_t steps, int32_t slots, chain_operations *out);

/* The planner: a step as a chain, by the number of slots. */
planner_function plan_revolve;

#endif
