/* A thread that runs jobs beside the thread that starts them, in the order in which they were started. */
#ifndef NEAP_PROGRAM_LANE_H
#define NEAP_PROGRAM_LANE_H

#include <stdint.h>

#include "base/status.h"

struct lane;
struct tensor;

/* A job; the lane keeps a copy until it has run. The numbers are for `run` alone. */
struct lane_job {
  neap_status (*run)(void *context, const struct lane_job *job);
  void *context;
  const struct tensor *tensor;
  int64_t number;
  uint64_t place, bytes;
};

/* Starts the thread, with signals left to the caller's threads. Where the system gives none, jobs run when
 * they are started. */
neap_status lane_create(struct lane **out);
/* Waits for started jobs. Takes NULL. */
void lane_free(struct lane *lane);

/* Starts a job; waits while too many are started. */
void lane_start(struct lane *lane, const struct lane_job *job);

/* Returns the number of jobs started so far. */
uint64_t lane_started(const struct lane *lane);

/* Waits until `count` jobs have ended; returns the first failure since lane_settle. After a failure further
 * jobs end without running. */
neap_status lane_wait(struct lane *lane, uint64_t count);

/* Waits for all started jobs, and forgets a failure. */
void lane_settle(struct lane *lane);

/* Returns the seconds that lane_wait has waited since the lane was created. */
double lane_waited(const struct lane *lane);

#endif
