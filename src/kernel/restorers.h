/* Restorers of values: nodes at the end of a lowered step that write what a node of the forward pass made to
 * the session's file on disk, and bring it back (step/step.h). A plan may use each of them or not. */
#ifndef NEAP_KERNEL_RESTORERS_H
#define NEAP_KERNEL_RESTORERS_H

#include "kernel/kernel.h"
#include "step/plan.h"

/* Ends the name of a graph whose values may be stored. */
#define STORED_SUFFIX "+stored"

/* Adds a Store and a Restore for each node of the forward pass that makes much, and takes about as long as to
 * bring that back or longer. Other nodes keep their ids and costs. */
neap_status lowered_add_restorers(struct lowered *lowered, const struct roofline *roofline);

/* Returns true if the plan stores a Store's input. */
bool plan_stores(const struct neap_plan *plan, int32_t store);

/* Returns the bytes that a plan of the step writes in one run, and reads. */
struct stored_bytes {
  uint64_t written, read;
};
struct stored_bytes plan_stored_bytes(const struct neap_step *step, const struct neap_plan *plan);

#endif
