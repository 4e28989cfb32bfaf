/* Makes schedules from operations on the stages of a chain and scores them with the simulator. All chain
 * planners use this. */
#ifndef NEAP_SEARCH_CHAIN_PLAN_H
#define NEAP_SEARCH_CHAIN_PLAN_H

#include "search/chain_operation.h"
#include "search/stage.h"
#include "step/planner.h"
#include "step/simulate.h"

struct chain_plan {
  struct chain chain;
  struct stage *classes; /* by class */
  struct simulator simulator;
  uint64_t budget;
  bool *ran;               /* by stage: it has run forward */
  struct schedule emitted; /* the current schedule */
  struct schedule *best;   /* the cheapest that fits; if none fits, the one with the least peak */
  struct simulation score; /* of `best` */
  bool any;                /* `best` exists */
  enum effort effort;
};

/* Cuts the step and measures the options of its stages (stage.h, `effort`). NEAP_OVER_BUDGET: no cut. Free
 * `plan` also after a failure. */
neap_status chain_plan_create(const neap_step *step, uint64_t budget, const struct planner_options *options,
                              int32_t most_stages, int32_t effort, struct schedule *out,
                              struct chain_plan *plan);
void chain_plan_free(struct chain_plan *plan);

static inline const struct stage *chain_plan_stage(const struct chain_plan *plan, int32_t s) {
  return &plan->classes[plan->chain.stages[s].class_id];
}

/* Makes the schedule of operations, `emitted`. A stage's boundary input must exist; the values that an option
 * keeps live until its backward part. */
neap_status chain_emit(struct chain_plan *plan, const chain_operations *operations);

/* Emits and scores a schedule, and keeps it if it is better. If it fits, removes the recomputations that the
 * budget does not need. `score`: before cleaning. */
neap_status chain_score(struct chain_plan *plan, const chain_operations *operations,
                        struct simulation *score);

/* The same for the step's own order. */
neap_status chain_keep_all(struct chain_plan *plan, struct simulation *score);

/* Returns NEAP_OVER_BUDGET unless a schedule fits. */
neap_status chain_verdict(const struct chain_plan *plan, const char *name);

#endif
