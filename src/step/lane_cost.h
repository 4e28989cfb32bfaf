/* Schedules of a step whose transfers run beside the other nodes (step/step.h): when jobs begin, and the cost
 * by two clocks. */
#ifndef NEAP_STEP_LANE_COST_H
#define NEAP_STEP_LANE_COST_H

#include "step/step.h"

/* Returns true for a job of the lane that begins behind what made its inputs; a restorer begins at its own
 * position. */
static inline bool is_lane_store(const neap_step *step, int32_t node) {
  return step->nodes[node].transfers && !step_restores(step, node);
}

/* The stores of a schedule by the position behind which they begin, in the order in which they do. */
struct lane_stores {
  int32_t *first; /* by position: the first store that begins behind it; -1: none */
  int32_t *next;  /* by position of a store: another that begins behind the same position; -1: none */
};

/* Finds them; the arrays are the region's. A schedule need not be valid, but its nodes must exist. */
neap_status lane_find_stores(struct region *region, const neap_step *step, const int32_t *schedule,
                             int32_t length, struct lane_stores *out);

/* Gives the cost of such a schedule: when its last node has ended, where waits for jobs of the lane count.
 * O(positions + reads). */
neap_status lane_cost(const neap_step *step, const int32_t *schedule, int32_t length, double *cost);

#endif
