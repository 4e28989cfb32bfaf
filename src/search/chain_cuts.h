/* The positions at which the forward pass of a step can be cut. */
#ifndef NEAP_SEARCH_CHAIN_CUTS_H
#define NEAP_SEARCH_CHAIN_CUTS_H

#include "base/region.h"
#include "step/step.h"

/* A position of the forward pass and all values that cross it; every value of a cut is made after the cut
 * before it. */
struct chain_cut {
  int32_t after;      /* the last node before it */
  int32_t begin, end; /* its values: chain_cuts.values[begin .. end) */
};

struct chain_cuts {
  int32_t border; /* the first node of the backward pass; the node count if none exists */
  int32_t count;
  struct chain_cut *cuts; /* by position */
  int32_t *values;        /* tensor ids */
};

/* Finds all positions that one value crosses, right after it is made. Between them, finds multi-tensor
 * boundaries (of at most CUT_VALUES values) that share no value with their neighbours. Memory is the
 * region's. Takes time linear in the reads of the step. */
enum { CUT_VALUES = 64 };
neap_status chain_cuts_find(const neap_step *step, struct region *region, struct chain_cuts *out);

#endif
