/* The shape of attention, whose queries, keys and values are given apart or packed. */
#ifndef NEAP_OP_ATTENTION_H
#define NEAP_OP_ATTENTION_H

#include "op/op.h"

/* Slots of the places of queries, forward and backward; nodes without them have fewer inputs. */
enum { ATTENTION_PLACES = 4, ATTENTION_BACK_PLACES = 7 };

struct attention_shape {
  int64_t sequences, queries, keys; /* queries and keys: of each sequence */
  int64_t heads, key_heads, depth;  /* heads: of queries */
  float scale;
};

/* The shape of a node, forward or backward, that has been inferred. */
struct attention_shape attention_shape_of(const struct neap_graph *graph, const struct node *node);

#endif
