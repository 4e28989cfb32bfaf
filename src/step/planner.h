/* A planner: a function from a step and a budget to a schedule. Planners are independent, except those that
 * start from another's schedule (neap: rotor and evict). */
#ifndef NEAP_STEP_PLANNER_H
#define NEAP_STEP_PLANNER_H

#include "step/schedule.h"
#include "step/step.h"

/* The number of nodes of a large step. Each simulation of a larger one takes long, so searches are coarser
 * and `auto` asks few planners. */
enum { LARGE_STEP = 2000 };

/* The amount of work that goes into a schedule. */
enum effort {
  EFFORT_QUICK = -1, /* only tries to meet the budget, at any cost */
  EFFORT_USUAL,      /* a fixed amount of work */
  EFFORT_LONG        /* the same, then on until the deadline, for planners that search */
};

struct planner_options {
  enum effort effort;
  double deadline; /* of clock_seconds(): a planner that searches stops then; 0: none, deterministic */
  double started;  /* of the same clock */
  int64_t work, least_work;   /* the most of a search, and of one on the way to the least, in units of the
                                 timeline; 0: what the size of the step gives */
  bool brief;                 /* the least is taken as it is found: its plan and layout are not improved on */
  struct descent *descent;    /* keeps a planner's way to the least peak for later calls with this step; its
                                 order of the nodes may differ from the step's; NULL: not kept */
  struct schedule *runner_up; /* starts empty; receives another schedule that is nearly as good, if the
                                 planner has one, whose layout may be better; NULL: not asked for */
  const struct schedule *near; /* a valid schedule that needs no more than the budget or little more, from
                                  which a planner may go on; NULL: none */
  neap_plan_progress_function *progress; /* called now and then by planners that search; NULL: none */
  void *context;
};

/* Finds a schedule, as cheap as the planner can, whose simulated peak is at most `budget`, resident bytes
 * included. Fails with NEAP_OVER_BUDGET if it finds none. `out` starts empty; after a failure the caller may
 * only pass it to schedule_free. Deterministic. */
typedef neap_status planner_function(const neap_step *step, uint64_t budget,
                                     const struct planner_options *options, struct schedule *out);

/* Finds the schedule with the least peak that the planner can reach; otherwise as planner_function. */
typedef neap_status least_function(const neap_step *step, const struct planner_options *options,
                                   struct schedule *out);

#endif
