/* The simulator: what a schedule costs and takes. It scores every planner's schedules. */
#ifndef NEAP_STEP_SIMULATE_H
#define NEAP_STEP_SIMULATE_H

#include "step/instance.h"
#include "step/schedule.h"

struct simulation {
  uint64_t peak_bytes; /* resident bytes included */
  int32_t peak_at;     /* the first position that reaches it */
  double cost;         /* sum over the schedule, in its order */
  int32_t recomputed;  /* positions that repeat a node */
};

/* Scores a schedule. NEAP_INVALID_PLAN names the rule and the position: an input that is not resident, a node
 * that must not repeat, an update before a reader, a node that never runs. O(positions + reads). */
neap_status simulate(const neap_step *step, const int32_t *schedule, int32_t length, struct simulation *out);

/* The same, and all instances in the order of the plan file: by position, outputs in their order, the
 * workspace (when not 0 bytes) last. The array belongs to the caller: free() it. */
neap_status simulate_instances(const neap_step *step, const int32_t *schedule, int32_t length,
                               struct simulation *out, struct instance **instances, int32_t *count);

/* The simulator with its working memory kept, for planners that score many schedules of one step. */
struct simulator {
  const neap_step *step;
  int32_t *instance;                 /* tensor -> its newest instance; -1: none */
  int32_t *runs;                     /* node -> how often it has run */
  VECTOR(struct instance) instances; /* of the schedule that was scored last */
  VECTOR(uint64_t) live;             /* by position: bytes of values and workspace */
};

/* Needs simulator_free also after a failure. */
neap_status simulator_create(const neap_step *step, struct simulator *out);
void simulator_free(struct simulator *simulator);

/* As simulate(); the instances and live bytes stay in the simulator until the next call. */
neap_status simulator_run(struct simulator *simulator, const int32_t *schedule, int32_t length,
                          struct simulation *out);

#endif
