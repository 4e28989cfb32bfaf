/* Finds the time and the memory that a schedule takes, whichever way made it. */
#ifndef NEAP_PIPELINE_SIMULATE_H
#define NEAP_PIPELINE_SIMULATE_H

#include "pipeline/pipeline.h"

struct pipeline_time {
  double start, end;
};

struct pipeline_result {
  double seconds;              /* from the first task's start until every rank has updated what it trains */
  double bubble;               /* share of all ranks' seconds in which they compute nothing */
  uint64_t most_bytes;         /* of any rank */
  double *rank_busy;           /* [ranks] seconds of computing */
  uint64_t common_bytes;       /* of the memory that all ranks reach; 0: they reach none */
  uint64_t *rank_bytes;        /* [ranks] the most that live at once, resident ones included */
  struct pipeline_time *times; /* by task, as the schedule has them */
};

/* Runs the tasks of each rank in their order. A task starts as soon as its rank is free and, where it
 * recomputes, the value that it begins with is there; all but its early seconds wait for what the part before
 * makes. Values go from rank to rank while ranks compute; sender and receiver both hold them from when they
 * are sent. A value lives until the last task that reads it ends. After their last tasks ranks sum gradients
 * of what several of them have, and update. Memory of the result is the region's. NEAP_INVALID_PLAN: ranks
 * wait for each other, or a task is missing. The schedule's numbers are those of a valid one
 * (pipeline/check.h). */
neap_status pipeline_simulate(const struct pipeline_problem *problem,
                              const struct pipeline_schedule *schedule, struct region *region,
                              struct pipeline_result *out);

#endif
