/* Moves reads of weights on disk, and gathers of weights of which ranks have shares, before the nodes that
 * they can overlap. */
#ifndef NEAP_PROGRAM_PREFETCH_H
#define NEAP_PROGRAM_PREFETCH_H

#include "kernel/kernel.h"
#include "step/plan.h"

/* Moves each Fetch, Load and AllGather of a plan, and jobs of the step's own lane, away from what waits for
 * it (step/overlap.h), as far as the peak stays within `budget`. Replaces `*plan` if the new layout keeps
 * the budget too. Nodes, their number and the cost stay. Does nothing to a step without them. On failure the
 * plan is unchanged. */
neap_status prefetch(const struct lowered *lowered, uint64_t budget, struct neap_plan **plan);

#endif
