/* Makes a plan of a schedule or, if its layout wastes memory, of another schedule near it. */
#ifndef NEAP_PLAN_REPAIR_H
#define NEAP_PLAN_REPAIR_H

#include "layout/layout.h"
#include "step/plan.h"
#include "step/planner.h"
#include "step/tuning.h"

/* The size that an arena should have. */
enum goal {
  GOAL_FIT,   /* within the capacity */
  GOAL_TIGHT, /* and no more than TIGHTNESS allows */
  GOAL_NEAR /* the same, but a plan that nearly fits is not repaired while there is time, as the planner will
               be asked for less */
};

/* The requirements on a plan. */
struct demand {
  const char *planner; /* the plan's */
  double deadline;     /* of clock_seconds(): a plan that keeps the capacity by then is enough; 0: none */
  uint64_t capacity;   /* bytes of arena that are enough */
  enum effort effort;  /* if quick, any plan that keeps the capacity is enough, at any cost */
  enum goal goal;
  enum layout_effort layout;
};

/* Returns true if the arena lacks little: a schedule with this much less memory will mostly fit. */
static inline bool nearly_fits(uint64_t arena_bytes, uint64_t capacity) {
  return arena_bytes <= capacity + capacity / NEARLY_SHARE;
}

/* Simulates a schedule and lays it out. The arena may be larger than asked for. */
neap_status plan_of_schedule(const neap_step *step, const struct schedule *schedule,
                             const struct demand *demand, struct neap_plan **out);

/* As above; but if the layout is not as asked for, searches from the schedule (search/search.h) with a little
 * less memory and other random numbers, again and again. Keeps the best of the plans: first one that keeps
 * the capacity, then one that is tight, then the cheapest. Live bytes only say that a layout could fit: among
 * schedules that are nearly as good some leave holes that nothing fills, others do not. `runner_up`: another
 * schedule, nearly as good, that is tried too; NULL or empty: none. Deterministic without a deadline, for any
 * number of threads. Takes at most about as long as the planner's own search. */
neap_status plan_by_repair(const neap_step *step, const struct schedule *schedule,
                           const struct schedule *runner_up, const struct demand *demand,
                           struct neap_plan **out);

/* Repairs a plan that was left unrepaired (GOAL_NEAR) and replaces it by a better one, if it finds one. On
 * failure it is that plan or a better one. */
neap_status plan_repair_on(const neap_step *step, const struct demand *demand, struct neap_plan **plan);

/* If the arena is not tight, replaces `*plan` by the same schedule in a smaller arena, if a second or so
 * finds one: a tight one, or for `least` the smallest. On failure the plan is unchanged. */
neap_status plan_tighten(const neap_step *step, bool least, struct neap_plan **plan);

#endif
