/* A plan of a schedule; and, where its layout wastes memory, of another schedule near it. */
#ifndef NEAP_PLAN_REPAIR_H
#define NEAP_PLAN_REPAIR_H

#include "layout/layout.h"
#include "step/plan.h"
#include "step/planner.h"
#include "step/tuning.h"

/* What an arena should be. */
enum goal {
  GOAL_FIT,   /* within the capacity */
  GOAL_TIGHT, /* and no more than TIGHTNESS allows */
  GOAL_NEAR   /* the same; but what nearly fits is not repaired while there is time: the planner will be asked
                 for less */
};

/* What is asked of a plan. */
struct demand {
  const char *planner; /* the plan's */
  double deadline;     /* of clock_seconds(): what keeps the capacity by then will do; 0: none */
  uint64_t capacity;   /* bytes of arena that will do */
  enum effort effort;  /* where it is quick, any plan that keeps the capacity will do, whatever it costs */
  enum goal goal;
  enum layout_effort layout;
};

/* Little is lacking: what is searched for with this much less memory will mostly fit. */
static inline bool nearly_fits(uint64_t arena_bytes, uint64_t capacity) {
  return arena_bytes <= capacity + capacity / NEARLY_SHARE;
}

/* Simulates and lays out. The arena may be larger than what is asked for. */
neap_status plan_of_schedule(const neap_step *step, const struct schedule *schedule,
                             const struct demand *demand, struct neap_plan **out);

/* As above; where the layout is not as asked for, the schedule is searched from (search/search.h) with a
 * little less memory and other random numbers, again and again, and the best of the plans that come out is
 * kept: first one that keeps the capacity, then one that is tight, then the cheapest. Live bytes only say
 * that something could fit: among schedules that are nearly as good some leave holes that nothing fills,
 * others do not. `runner_up`: another schedule, nearly as good, that is tried beside the first; NULL or
 * empty: none. Without a deadline deterministic, for any number of threads; takes about as long as the
 * planner's own search at the most. */
neap_status plan_by_repair(const neap_step *step, const struct schedule *schedule,
                           const struct schedule *runner_up, const struct demand *demand,
                           struct neap_plan **out);

/* Goes on with a plan that was left unrepaired (GOAL_NEAR) and puts a better one in its place, if it finds
 * one. On failure it is that plan or a better one. */
neap_status plan_repair_on(const neap_step *step, const struct demand *demand, struct neap_plan **plan);

/* Where the arena is not tight, puts the same schedule in a smaller one in the place of `*plan`, if it finds
 * one in a second or so: a tight one, or for `least` the smallest. On failure the plan is as it was. */
neap_status plan_tighten(const neap_step *step, bool least, struct neap_plan **plan);

#endif
