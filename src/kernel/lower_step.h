/* From a lowered graph to the step that planners see. */
#ifndef NEAP_KERNEL_LOWER_STEP_H
#define NEAP_KERNEL_LOWER_STEP_H

#include "kernel/kernel.h"

/* Rounds a size up to the alignment, so that the planners' sums are what the layout takes. No overflow:
 * graph_add_tensor left room. */
static inline uint64_t memory_round_up(uint64_t bytes) {
  return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

/* Makes the step of a lowered graph, whose tensors have formats: `seconds` and `workspaces` [nodes]. */
neap_status lowered_make_step(struct lowered *to, const double *seconds, const uint64_t *workspaces);

#endif
