/* Families of schedules of a chain, each with one parameter: a smaller value usually means less memory and
 * more cost. */
#ifndef NEAP_PAPERS_CHAIN_SWEEP_H
#define NEAP_PAPERS_CHAIN_SWEEP_H

#include "search/chain_plan.h"

struct chain_sweep {
  struct chain_plan plan;
  const char *name;     /* of the planner */
  int32_t most_stages;  /* at most, of the chain */
  int32_t most;         /* parameters are 1 .. most; set by `prepare` */
  struct region region; /* for the family's data */
  void *family;         /* its own */
  neap_status (*prepare)(struct chain_sweep *sweep);
  neap_status (*operations)(struct chain_sweep *sweep, int32_t parameter, chain_operations *out);
};

/* Cuts the step, prepares the family and sweeps its parameter for the cheapest schedule that the simulator
 * finds within the budget. It is a planner_function except for its first parameter. Frees the memory of the
 * sweep. */
neap_status chain_sweep_run(struct chain_sweep *sweep, const neap_step *step, uint64_t budget,
                            const struct planner_options *options, struct schedule *out);

#endif
