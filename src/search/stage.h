/* What a stage of a chain can keep of its inside, and what that costs. A stage is measured alone, as a small
 * step of its own, by the one simulator: its boundaries come from a first node and end in a last one. Stages
 * of one class share it. */
#ifndef NEAP_SEARCH_STAGE_H
#define NEAP_SEARCH_STAGE_H

#include "base/vector.h"
#include "search/chain.h"

/* One way through a stage. Lists hold local numbers (chain.h). All bytes are counted beside the stage's input
 * boundary, which lives until its backward part has ended, beside what the mode holds and beside what passes
 * the stage by.
 *
 *   again     from what is there: what the kept values and the output boundary need
 *   make      from what is there: what the kept values need
 *   backward  backward nodes and updates, each after what it misses, made just in time
 *
 * The first time that a stage runs forward all its forward nodes run, in the step's order. */
struct stage_option {
  uint64_t kept_bytes;    /* held between forward and backward part, without the output boundary */
  uint64_t forward_peak;  /* while `again` runs, without gradients */
  uint64_t backward_peak; /* while `backward` runs, gradients and what is kept included */
  uint64_t leaf_peak;     /* while `make` and `backward` run one after the other, gradients included */
  double again_cost, make_cost, backward_cost;
  int32_t *again, *make, *backward;
  int32_t again_count, make_count, backward_count;
};

/* What is there when the stage runs forward again. In mode 0 its input boundary alone; in another mode also
 * some values of its inside that were held since it ran: few bytes that save much of the work; mode 2 holds
 * more than mode 1. */
struct stage_mode {
  uint64_t held_bytes;
  uint64_t forward_peak; /* of running forward and keeping nothing but the input and what is held */
  double forward_cost;   /* of that, for the output boundary alone */
  int32_t bare;          /* the option whose `again` does that */
  VECTOR(struct stage_option) options; /* 0: keeps all that the backward part reads */
};

enum { STAGE_MODES = 3 };

/* A class of stages. */
struct stage {
  const struct chain *chain;
  int32_t stage;        /* one stage of the class */
  struct region region; /* owns what the options point to */
  neap_step *step; /* node 0 gives what enters; 1 .. forward: forward nodes; then the turn, which reads the
                      output boundary and gives its gradients; backward nodes; last: reads what leaves */
  int32_t forward, backward; /* counts */
  uint64_t input_bytes;
  bool *held[STAGE_MODES]; /* by tensor of the small step */
  struct stage_mode modes[STAGE_MODES];
};

/* `effort`: about how many sets of kept values are tried; 0: in mode 0 alone, option 0 keeps all and another
 * nothing. To be freed also after a failure. */
neap_status stage_create(const struct chain *chain, int32_t stage, int32_t effort, struct stage *out);
void stage_free(struct stage *stage);

#endif
