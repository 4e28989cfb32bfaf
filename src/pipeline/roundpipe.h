/* RoundPipe (arXiv 2604.27085): forward and backward have borders of their own, by measured times; a
 * micro-batch goes from rank to rank part by part, and no part belongs to a rank. All but the last blocks,
 * which run backward at once, are recomputed. Published for weights that all ranks reach in the host's
 * memory: here each rank has those of the blocks that it runs, and what several have is summed at the end of
 * a step. */
#ifndef NEAP_PIPELINE_ROUNDPIPE_H
#define NEAP_PIPELINE_ROUNDPIPE_H

#include "pipeline/stages.h"

/* Its partition: of the sums of consecutive blocks from the slowest block's seconds up to 1.1 of them, the
 * one of which max(parts, ranks) times are least; blocks are packed under it, forward from the last on,
 * backward from the first on. Writes at most 2 block_count + 1 parts, in the order in which a micro-batch
 * goes through them. */
neap_status pipeline_roundpipe_parts(const struct pipeline_problem *problem, struct pipeline_part *parts,
                                     int32_t *part_count);

/* Its order, for the parts that the schedule has: rounds of as many micro-batches as there are ranks, each
 * from the rank on that is free first. */
neap_status pipeline_order_rounds(const struct pipeline_problem *problem, struct pipeline_schedule *schedule);

neap_status pipeline_roundpipe(const struct pipeline_problem *problem, struct pipeline_best *best);

#endif
