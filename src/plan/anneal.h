/* Local search over schedules: simulated annealing on a timeline. */
#ifndef NEAP_PLAN_ANNEAL_H
#define NEAP_PLAN_ANNEAL_H

#include "plan/schedule.h"

struct anneal_options {
  int64_t moves;    /* how many are tried */
  double hot, cold; /* temperature at the start and the end, in average costs of a node */
  bool descend;
  uint32_t seed;
  double deadline; /* of the monotonic clock, seconds; 0: none */
};

/* Looks for a cheaper schedule with at most `limit` bytes of values, from a valid one that may be over the
 * limit. `out` is the cheapest that fits, empty where none was met; `cost` its cost. */
neap_status anneal(const neap_step *step, uint64_t limit, const struct schedule *start,
                   const struct anneal_options *options, struct schedule *out, double *cost);

#endif
