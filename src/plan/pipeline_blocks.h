/* The blocks of a training step: its parts between the cuts of its chain (search/chain.h). */
#ifndef NEAP_PLAN_PIPELINE_BLOCKS_H
#define NEAP_PLAN_PIPELINE_BLOCKS_H

#include "pipeline/pipeline.h"
#include "search/chain.h"

/* Sets the blocks and shared variables of the problem, in the region's memory. The step is one micro-batch
 * with its updates: their seconds count once, and each variable they change has a sum of gradients. */
neap_status pipeline_blocks_find(const struct chain *chain, struct region *region,
                                 struct pipeline_problem *problem);

#endif
