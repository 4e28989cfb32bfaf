/* Moves reads of weights on disk, and gathers of weights of which ranks have shares, before the nodes that
 * they can overlap. */
#ifndef NEAP_RUN_PREFETCH_H
#define NEAP_RUN_PREFETCH_H

#include "kernel/kernel.h"
#include "step/plan.h"

/* Moves each Fetch and AllGather of a plan before the nodes ahead of it, until these take as long as it does
 * by their costs, as far as the peak stays within `budget`. Replaces `*plan` if the new layout keeps the
 * budget too. Nodes, their number and the cost stay. Does nothing to a step without them. On failure the plan
 * is unchanged. */
neap_status prefetch(const struct lowered *lowered, uint64_t budget, struct neap_plan **plan);

#endif
