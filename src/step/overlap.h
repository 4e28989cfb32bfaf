/* Moves jobs of a schedule so that they run beside other nodes: nodes that are made one by a step's lane, and
 * those that a caller names. */
#ifndef NEAP_STEP_OVERLAP_H
#define NEAP_STEP_OVERLAP_H

#include "step/schedule.h"

/* Moves each job before the nodes ahead of it, and each store of the lane behind the nodes that follow it,
 * until these take as long as it does by their costs, as far as live bytes stay within `capacity` (of
 * values). `jobs` [nodes] names jobs besides the lane's; NULL: none. Nodes, their number and what they read
 * stay.
 * `*moves`: the positions that jobs have passed. On failure the schedule is unchanged. */
neap_status schedule_overlap(const neap_step *step, const bool *jobs, uint64_t capacity,
                             struct schedule *schedule, int32_t *moves);

#endif
