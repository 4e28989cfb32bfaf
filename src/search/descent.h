/* What is found on the way from keeping everything down to the least memory: schedules of one step, the lower
 * the more expensive. Where a budget is so small that no other start fits it, the cheapest of them that does
 * is one.
 */
#ifndef NEAP_SEARCH_DESCENT_H
#define NEAP_SEARCH_DESCENT_H

#include "step/schedule.h"

struct rung {
  struct schedule schedule;
  uint64_t peak_bytes; /* resident bytes included */
  double cost;
};

/* From the highest peak and lowest cost to the lowest and highest. */
struct descent {
  VECTOR(struct rung) rungs;
};

/* Simulates a schedule and adds a copy of it, in the place of all that cost no less and need no less; nothing
 * where another costs no more and needs no more. On failure the descent stays good. */
neap_status descent_add(struct descent *descent, const neap_step *step, const struct schedule *schedule);

/* The same for all rungs of another descent of the step. */
neap_status descent_add_all(struct descent *descent, const neap_step *step, const struct descent *other);

/* The last rung; NULL: none exists. */
const struct rung *descent_least(const struct descent *descent);

/* The cheapest with a peak of at most this many bytes; NULL: none exists. */
const struct rung *descent_within(const struct descent *descent, uint64_t peak_bytes);

void descent_free(struct descent *descent);

#endif
