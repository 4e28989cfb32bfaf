/* The blocks of a training step: what lies between the cuts of its chain (search/chain.h). */
#ifndef NEAP_PLAN_PIPELINE_BLOCKS_H
#define NEAP_PLAN_PIPELINE_BLOCKS_H

#include "pipeline/pipeline.h"
#include "search/chain.h"

/* Sets blocks and shared variables of the problem, in the region's memory. The step is that of one
 * micro-batch, with its updates: their seconds count once, and what they change has a sum of gradients. */
neap_status pipeline_blocks_find(const struct chain *chain, struct region *region,
                                 struct pipeline_problem *problem);

#endif
