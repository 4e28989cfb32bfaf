/* Schedules of stages: blocks between borders that run forward and backward on one rank. */
#ifndef NEAP_PIPELINE_STAGES_H
#define NEAP_PIPELINE_STAGES_H

#include "pipeline/simulate.h"

enum { PIPELINE_STAGES = 512 }; /* at most, of a chain */

/* Stage s has the blocks [border[s], border[s + 1]) and runs on rank s % ranks. */
struct pipeline_stages {
  int32_t count;
  int32_t border[PIPELINE_STAGES + 1];
  bool recompute[PIPELINE_STAGES];
  bool early; /* recomputes before its gradient arrives, where its rank has nothing else to do */
};

/* Part s is forward of stage s, part 2 count - 1 - s its backward. The tasks are left to be filled. */
neap_status pipeline_stages_parts(const struct pipeline_problem *problem,
                                  const struct pipeline_stages *stages, struct pipeline_schedule *out);

/* Orders, where each rank has one stage: stage s runs warmup[s] micro-batches forward, then in turn one
 * backward and one forward. Warm-ups never rise from stage to stage, and are at least 1. */
void pipeline_order_warmup(struct pipeline_schedule *schedule, const int32_t *warmup);

/* Sets the borders of `count` stages so that the slowest is as fast as it can be, where all or none
 * recompute. */
neap_status pipeline_stages_balance(const struct pipeline_problem *problem, int32_t count, bool recompute,
                                    struct pipeline_stages *out);

/* The best schedule of those that were offered: within the budget the fastest; where none is, the one with
 * the least bytes of any rank. */
struct pipeline_best {
  struct pipeline_schedule schedule;
  double seconds;
  uint64_t bytes, least_bytes; /* of any rank; the least of all that were offered */
  bool found, fits;
};

/* Copies the schedule if it is better than the current one. */
neap_status pipeline_offer(const struct pipeline_problem *problem, const struct pipeline_schedule *schedule,
                           struct pipeline_best *best);
void pipeline_best_free(struct pipeline_best *best);

#endif
