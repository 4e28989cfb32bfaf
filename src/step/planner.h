/* What a planner is: a function from a step and a budget to a schedule. Each stands alone but for those that
 * begin with what another finds (neap: rotor and evict). */
#ifndef NEAP_STEP_PLANNER_H
#define NEAP_STEP_PLANNER_H

#include "step/schedule.h"
#include "step/step.h"

/* Nodes. Of more, where every simulation takes its time, searches are coarser and `auto` asks few rows. */
enum { LARGE_STEP = 2000 };

/* How much is done for a schedule. */
enum effort {
  EFFORT_QUICK = -1, /* only whether the budget can be met counts, not the cost */
  EFFORT_USUAL,      /* a fixed amount of work */
  EFFORT_LONG        /* that, and on until the deadline: by rows that search */
};

struct planner_options {
  enum effort effort;
  double deadline;         /* of clock_seconds(): a row that searches stops then; 0: none, deterministic */
  double started;          /* of the same clock */
  struct descent *descent; /* where a row keeps its way to the least peak that it finds, from one call to the
                              next for the same step, for itself alone: the nodes may be numbered in an order
                              of its own; NULL: nowhere */
  struct schedule *runner_up;  /* empty; for another schedule that is nearly as good, where a row has one: its
                                  layout may be better; NULL: not asked for */
  const struct schedule *near; /* a valid schedule that needs little more than the budget: a row that can may
                                  go on from it; NULL: none */
  neap_plan_progress_function *progress; /* told now and then by a row that searches; NULL: nobody */
  void *context;
};

/* Finds a schedule whose simulated peak, resident bytes included, is at most `budget`, as cheap as the
 * planner can. NEAP_OVER_BUDGET where it finds none. `out` starts empty; after a failure it is only good for
 * schedule_free. Deterministic. */
typedef neap_status planner_function(const neap_step *step, uint64_t budget,
                                     const struct planner_options *options, struct schedule *out);

/* Finds the schedule with the least peak that it can; else the same. */
typedef neap_status least_function(const neap_step *step, const struct planner_options *options,
                                   struct schedule *out);

#endif
