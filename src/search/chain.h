/* A training step as a chain of stages. The forward pass is cut at positions that few values cross: its
 * articulation points (one value) and multi-tensor boundaries (all hidden states of one time step). Stage s
 * is between boundary s - 1 and boundary s. Of earlier values its forward nodes only read boundary s - 1. Of
 * the forward pass its backward nodes only read boundary s - 1, the stage's own inside and boundary s.
 * Updates go with the backward nodes. */
#ifndef NEAP_SEARCH_CHAIN_H
#define NEAP_SEARCH_CHAIN_H

#include "search/chain_cuts.h"

struct chain_stage {
  int32_t forward_begin, forward_end;   /* node ids */
  int32_t backward_begin, backward_end; /* in chain.backward */
  uint64_t output_bytes;                /* of boundary s; 0 for the last stage */
  uint64_t gradient_bytes; /* backward values that are live where the backward pass enters the stage */
  uint64_t passing_bytes;  /* of those, the ones that the stage does not touch and others need later */
  int32_t class_id;        /* stages of one class are the same graph: structure, bytes and costs */
};

struct chain {
  const neap_step *step;
  struct region region;
  struct chain_cuts cuts; /* those that were taken: stage_count - 1 */
  int32_t stage_count, class_count;
  struct chain_stage *stages;
  int32_t *backward;    /* ids of backward and update nodes, by stage, in the step's order within a stage */
  int32_t *stage_of;    /* by node */
  int32_t *cut_of;      /* by tensor: the boundary that it belongs to; -1: none */
  int32_t *class_stage; /* class -> its first stage */
  int32_t *scratch;     /* by tensor, -1 between uses */
  bool *pinned;         /* by tensor: a forward value that must not be made twice, so it lives on once made */
};

/* Cuts a step into at most `most_stages` stages, at cuts that the backward pass reads, also in fewer bits (a
 * value that it does not read is no checkpoint). Of too many cuts, every k-th is taken. Stages are merged if
 * their backward nodes cannot be told apart. NEAP_OVER_BUDGET: the graph has no cut ("the graph has no cut:
 * ..."). Free `out` also after a failure. Takes time linear in the reads of the step. */
neap_status chain_create(const neap_step *step, int32_t most_stages, struct chain *out);
void chain_free(struct chain *chain);

/* Returns the number of nodes of a stage. Their local numbers: forward nodes first, then backward nodes. */
static inline int32_t chain_stage_node_count(const struct chain_stage *stage) {
  return stage->forward_end - stage->forward_begin + stage->backward_end - stage->backward_begin;
}
static inline int32_t chain_stage_node(const struct chain *chain, const struct chain_stage *stage,
                                       int32_t local) {
  const int32_t forward = stage->forward_end - stage->forward_begin;
  return local < forward ? stage->forward_begin + local
                         : chain->backward[stage->backward_begin + local - forward];
}

#endif
