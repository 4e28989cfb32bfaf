/* Schedules of one step on the way from keeping everything down to the least memory: the less they need, the
 * more expensive they are. If a budget is so small that no other start fits it, the cheapest of them that
 * fits is used. */
#ifndef NEAP_SEARCH_DESCENT_H
#define NEAP_SEARCH_DESCENT_H

#include "step/schedule.h"

struct rung {
  struct schedule schedule;
  uint64_t peak_bytes; /* resident bytes included */
  double cost;
};

/* Rungs from the highest peak and lowest cost to the lowest peak and highest cost. */
struct descent {
  VECTOR(struct rung) rungs;
};

/* Simulates a schedule and adds a copy of it. The copy replaces all that neither cost less nor need less; it
 * is not added if another neither costs nor needs more. On failure the descent stays valid. */
neap_status descent_add(struct descent *descent, const neap_step *step, const struct schedule *schedule);

/* The same for all rungs of another descent of the step. */
neap_status descent_add_all(struct descent *descent, const neap_step *step, const struct descent *other);

/* Returns the last rung; NULL: none exists. */
const struct rung *descent_least(const struct descent *descent);

/* Returns the cheapest rung with a peak of at most this many bytes; NULL: none exists. */
const struct rung *descent_within(const struct descent *descent, uint64_t peak_bytes);

void descent_free(struct descent *descent);

#endif
