/* Gruslys et al. 2016, Memory-efficient backpropagation through time: checkpointing of a chain whose steps
 * are alike. Stages are 0 .. steps - 1. */
#ifndef NEAP_PAPERS_BPTT_H
#define NEAP_PAPERS_BPTT_H

#include "base/region.h"
#include "search/chain_operation.h"
#include "step/planner.h"

/* C(t, m): the least number of forward steps, each backward step's own included, with m slots of hidden
 * states, one of which holds the chain's input (section 3.1). With `internal` > 0 a step may also run once
 * and keep all its values, in this many slots (section 3.3). */
struct bptt {
  int32_t steps, slots, internal;
  struct region region;
  int32_t *cost;  /* [steps + 1][slots + 1] */
  int32_t *split; /* the same: steps to the next checkpoint; 0: keep all of the first step */
};

/* Fills the table in O(steps^2 slots) time. NEAP_TOO_LARGE: more than INT32_MAX / 2 forward steps. Free `out`
 * also after a failure. */
neap_status bptt_create(int32_t steps, int32_t slots, int32_t internal, struct bptt *out);
void bptt_free(struct bptt *bptt);
int32_t bptt_forward_steps(const struct bptt *bptt, int32_t slots);
neap_status bptt_operations(const struct bptt *bptt, int32_t slots, chain_operations *out);

/* The planner: a step as a chain, by the number of slots. */
planner_function plan_bptt;

#endif
