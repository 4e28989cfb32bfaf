/* The ways to keep values of a stage's inside, and what they cost. A stage of a chain is measured alone, as a
 * small step of its own, by the simulator: its boundaries come from a first node and end in a last one.
 * Stages of one class share the result. */
#ifndef NEAP_SEARCH_STAGE_H
#define NEAP_SEARCH_STAGE_H

#include "base/vector.h"
#include "search/chain.h"

/* One way through a stage. Lists hold local numbers (chain.h). No byte count includes the stage's input
 * boundary, which lives until its backward part has ended, the values that the mode holds, or the values that
 * pass the stage.
 *
 *     again     from what is there: what the kept values and the output boundary need
 *     make      from what is there: what the kept values need
 *     backward  backward nodes and updates, each after what it misses, made just in time
 *
 * When a stage runs forward for the first time all its forward nodes run, in the step's order. */
struct stage_option {
  uint64_t kept_bytes;    /* held between forward and backward part, without the output boundary */
  uint64_t forward_peak;  /* while `again` runs, without gradients */
  uint64_t backward_peak; /* while `backward` runs, with gradients and kept values */
  uint64_t leaf_peak;     /* while `make` and `backward` run one after the other, gradients included */
  double again_cost, make_cost, backward_cost;
  int32_t *again, *make, *backward;
  int32_t again_count, make_count, backward_count;
};

/* The values that exist when the stage runs forward again. In mode 0 only its input boundary; in another mode
 * also some values of its inside that were held since it ran: few bytes that save much of the work; mode 2
 * holds more than mode 1. */
struct stage_mode {
  uint64_t held_bytes;
  uint64_t forward_peak; /* of running forward and keeping nothing but the input and the held values */
  double forward_cost;   /* of that, for the output boundary alone */
  int32_t bare;          /* the option whose `again` keeps nothing else */
  VECTOR(struct stage_option) options; /* 0: keeps all that the backward part reads */
};

enum { STAGE_MODES = 3 };

/* A class of stages. */
struct stage {
  const struct chain *chain;
  int32_t stage;        /* one stage of the class */
  struct region region; /* owns what the options point to */
  neap_step *step; /* node 0: entering values; 1 .. forward: forward nodes; then the turn, which reads the
                      output boundary and makes its gradients; backward nodes; last: leaving values */
  int32_t forward, backward; /* counts */
  uint64_t input_bytes;
  bool *held[STAGE_MODES]; /* by tensor of the small step */
  struct stage_mode modes[STAGE_MODES];
};

/* Measures a stage. `effort`: about how many sets of kept values are tried; 0: only mode 0, in which option 0
 * keeps all and another option nothing. Free `out` also after a failure. */
neap_status stage_create(const struct chain *chain, int32_t stage, int32_t effort, struct stage *out);
void stage_free(struct stage *stage);

#endif
