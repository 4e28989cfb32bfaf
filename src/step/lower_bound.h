/* What a schedule needs at the least, node by node. */
#ifndef NEAP_STEP_LOWER_BOUND_H
#define NEAP_STEP_LOWER_BOUND_H

#include "step/step.h"

/* Bytes that are live while a node runs, at least: its inputs, outputs and workspace, less what outputs may
 * take over. */
uint64_t node_bytes_at_once(const neap_step *step, const struct step_node *node);

/* Lower bound on the peak of any plan, resident bytes included: no valid schedule needs less. */
uint64_t plan_lower_bound(const neap_step *step);

#endif
