/* The best of many candidate schedules of one step under one budget. */
#ifndef NEAP_PAPERS_CONTEST_H
#define NEAP_PAPERS_CONTEST_H

#include "step/planner.h"
#include "step/simulate.h"

struct contest {
  struct simulator simulator;
  uint64_t budget;      /* resident bytes included */
  enum effort effort;   /* if quick, the least peak wins, not the least cost */
  struct schedule *out; /* the best so far */
  uint64_t peak;        /* its peak; UINT64_MAX: none exists yet */
  double cost;          /* its cost */
};

/* Call contest_free also after a failure; `out` stays with the caller. */
neap_status contest_create(const neap_step *step, uint64_t budget, const struct planner_options *options,
                           struct schedule *out, struct contest *contest);
void contest_free(struct contest *contest);

/* Returns true if the best so far meets the budget. */
bool contest_is_met(const struct contest *contest);

/* Scores a candidate exactly. One that fits is cleaned of recomputations that the budget does not need, and
 * its jobs of a lane are moved apart from what waits for them. Keeps the cheapest candidate that fits; while
 * none fits, the one with the least peak. Ignores an invalid candidate. */
neap_status contest_offer(struct contest *contest, const struct schedule *candidate);

/* Returns the status of the planner of this name: NEAP_OVER_BUDGET while no candidate fits. */
neap_status contest_result(const struct contest *contest, const char *planner);

#endif
