/* The schedule of a run that ranks divide by depth: of the ways to divide a step, the one with the fewest
 * seconds in a run, where all wait for the slowest whenever one sends. */
#ifndef NEAP_RUN_PIPELINE_SCHEDULE_H
#define NEAP_RUN_PIPELINE_SCHEDULE_H

#include "neap_collective.h"
#include "plan/pipeline_plan.h"

/* Makes the fastest schedule within a budget of bytes a rank, or the smallest (NEAP_BUDGET_MIN, or where no
 * way fits). Its borders are those of `chain`, the blocks of the step of micro-batches. `*lower`: the largest
 * budget for which another schedule is made, or 0 if this one is the smallest. NEAP_UNSUPPORTED: the step
 * has too few blocks. Free it with pipeline_schedule_free. */
neap_status pipeline_schedule_choose(const struct neap_graph *graph, const neap_session_options *options,
                                     const struct chain *chain, uint64_t budget,
                                     struct pipeline_schedule *schedule, uint64_t *lower);

/* Gives every rank of a collective the schedule of rank 0, for `ranks` that divide the step. */
neap_status pipeline_schedule_hand(const struct neap_collective *collective, int32_t ranks,
                                   struct pipeline_schedule *schedule);

#endif
