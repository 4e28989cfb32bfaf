/* A lower bound of the memory of all schedules, from each node alone. */
#ifndef NEAP_STEP_LOWER_BOUND_H
#define NEAP_STEP_LOWER_BOUND_H

#include "step/step.h"

/* Returns the least bytes that are live while a node runs: its inputs, outputs and workspace, less the bytes
 * that its outputs may take over. */
uint64_t node_bytes_at_once(const neap_step *step, const struct step_node *node);

/* Returns a lower bound on the peak of any valid plan, resident bytes included. */
uint64_t plan_lower_bound(const neap_step *step);

#endif
