/* Random layered steps as large as those of Moccasin. */
#ifndef NEAP_BENCH_LAYERED_STEP_H
#define NEAP_BENCH_LAYERED_STEP_H

#include "neap.h"
#include "step_families.h"

/* Mean width / layers as in Moccasin's graphs: 0.43 with 250 nodes, 0.31 with 1000. */
static inline neap_status layered_step(int32_t nodes, int32_t seed, neap_step **step) {
  const struct step_shape shape = {.family = STEP_LAYERED,
                                   .nodes = nodes,
                                   .seed = (uint32_t)seed,
                                   .plain = true,
                                   .width = nodes <= 250 ? 0.43 : 0.31};
  return step_of_family(&shape, step);
}

#endif
