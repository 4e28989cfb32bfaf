/* Families of schedules of a chain by one number: with a smaller one less memory and more cost, by and large.
 */
#ifndef NEAP_PAPERS_CHAIN_SWEEP_H
#define NEAP_PAPERS_CHAIN_SWEEP_H

#include "search/chain_plan.h"

struct chain_sweep {
  struct chain_plan plan;
  const char *name;     /* of the row */
  int32_t most_stages;  /* that the chain is cut into */
  int32_t most;         /* parameters are 1 .. most; set by `prepare` */
  struct region region; /* for what the family keeps there */
  void *family;         /* its own */
  neap_status (*prepare)(struct chain_sweep *sweep);
  neap_status (*operations)(struct chain_sweep *sweep, int32_t parameter, chain_operations *out);
};

/* Cuts the step, prepares the family and sweeps its parameter for the cheapest schedule that the simulator
 * finds within the budget: a planner_function but for its first parameter. What the sweep holds is freed. */
neap_status chain_sweep_run(struct chain_sweep *sweep, const neap_step *step, uint64_t budget,
                            const struct planner_options *options, struct schedule *out);

#endif
