/* Checks that a schedule is valid, by rules of its own: it does not use the simulator. */
#ifndef NEAP_PIPELINE_CHECK_H
#define NEAP_PIPELINE_CHECK_H

#include "pipeline/pipeline.h"

/* NEAP_INVALID_PLAN, with a message that names the rule:
 * - forward parts have the blocks from the first on, backward parts those from the last on, each once, with
 * at most one part of both passes, which then ends at the last block;
 * - every part runs once for every micro-batch, on one rank;
 * - blocks that are not recomputed run backward on the rank that ran them forward;
 * - ranks, each in its order, come to an end without waiting for each other. */
neap_status pipeline_check(const struct pipeline_problem *problem, const struct pipeline_schedule *schedule);

#endif
