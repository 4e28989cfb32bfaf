/* The simulator with its working memory kept, for planners that score many schedules of one step. */
#ifndef NEAP_STEP_SIMULATOR_H
#define NEAP_STEP_SIMULATOR_H

#include "step/schedule.h"

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
