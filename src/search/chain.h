/* A training step as a chain of stages. The forward pass is cut at positions that few values cross: its
 * articulation points (one value) and multi-tensor boundaries (all hidden states of one time step). Stage s
 * lies between boundary s - 1 and boundary s; its forward nodes read of what was made before them only
 * boundary s - 1, and its backward nodes read of the forward pass only boundary s - 1, the stage's own
 * inside and boundary s. Updates go with the backward nodes. */
#ifndef NEAP_SEARCH_CHAIN_H
#define NEAP_SEARCH_CHAIN_H

#include "base/region.h"
#include "step/step.h"

/* A position of the forward pass and all values that cross it; every value of a cut is made after the cut
 * before it. */
struct chain_cut {
  int32_t after;      /* the last node before it */
  int32_t begin, end; /* its values: chain_cuts.values[begin .. end) */
};

struct chain_cuts {
  int32_t border; /* the first node of the backward pass; the node count where there is none */
  int32_t count;
  struct chain_cut *cuts; /* by position */
  int32_t *values;        /* tensor ids */
};

/* All positions that one value crosses, right after it is made; between them, multi-tensor boundaries (of at
 * most CUT_VALUES values) that do not share a value with their neighbours. Memory is the region's. Time
 * linear in the reads of the step. */
enum { CUT_VALUES = 64 };
neap_status chain_cuts_find(const neap_step *step, struct region *region, struct chain_cuts *out);

struct chain_stage {
  int32_t forward_begin, forward_end;   /* node ids */
  int32_t backward_begin, backward_end; /* in chain.backward */
  uint64_t output_bytes;                /* of boundary s; 0 for the last stage */
  uint64_t gradient_bytes; /* backward values that live where the backward pass enters the stage */
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
  bool *pinned;         /* by tensor: a forward value that must not be made twice, so lives on once made */
};

/* Cuts a step into at most `most_stages` stages, at cuts that the backward pass reads (a value that it does
 * not read is no checkpoint); of too many cuts, every k-th is taken. Where backward nodes of two stages
 * cannot be told apart, the stages are one. NEAP_OVER_BUDGET: the graph has no cut ("the graph has no cut:
 * ..."). `out` is to be freed also after a failure. Time linear in the reads of the step. */
neap_status chain_create(const neap_step *step, int32_t most_stages, struct chain *out);
void chain_free(struct chain *chain);

/* Nodes of a stage have local numbers: forward nodes first, then backward nodes. */
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
