/* The simulator: returns the cost and the peak of a schedule. It scores the schedules of every planner. */
#ifndef NEAP_STEP_SIMULATE_H
#define NEAP_STEP_SIMULATE_H

#include "step/instance.h"
#include "step/schedule.h"

struct simulation {
  uint64_t peak_bytes; /* resident bytes included */
  int32_t peak_at;     /* the first position that reaches it */
  double cost;         /* sum over the schedule, in its order; of a step with a lane: step/lane_cost.h */
  int32_t recomputed;  /* positions that repeat an earlier node */
};

/* Scores a schedule. Fails with NEAP_INVALID_PLAN, naming the rule and the position, if it reads a value that
 * is not made, repeats a node that must not run twice, updates before a reader, or leaves a node out.
 * O(positions + reads). */
neap_status simulate(const neap_step *step, const int32_t *schedule, int32_t length, struct simulation *out);

/* The same, with all instances in the order of the plan file: by position, outputs in their order, the
 * workspace (when not 0 bytes) last. The caller owns the array: free() it. */
neap_status simulate_instances(const neap_step *step, const int32_t *schedule, int32_t length,
                               struct simulation *out, struct instance **instances, int32_t *count);

/* A simulator that keeps its working memory, for planners that score many schedules of one step. */
struct simulator {
  const neap_step *step;
  int32_t *instance;                 /* tensor -> its newest instance; -1: none */
  int32_t *runs;                     /* node -> how often it has run */
  VECTOR(struct instance) instances; /* of the schedule that was scored last */
  VECTOR(uint64_t) live;             /* by position: bytes of values and workspace */
};

/* Call simulator_free also after a failure. */
neap_status simulator_create(const neap_step *step, struct simulator *out);
void simulator_free(struct simulator *simulator);

/* As simulate(); the instances and live bytes stay in the simulator until the next call. */
neap_status simulator_run(struct simulator *simulator, const int32_t *schedule, int32_t length,
                          struct simulation *out);

#endif
