/* The shape of attention; queries, keys and values are separate tensors or one packed tensor. */
#ifndef NEAP_OP_ATTENTION_H
#define NEAP_OP_ATTENTION_H

#include "op/op.h"

/* The slot of the queries' places, forward and backward; nodes without places have fewer inputs. */
enum { ATTENTION_PLACES = 4, ATTENTION_BACK_PLACES = 7 };

struct attention_shape {
  int64_t sequences, queries, keys; /* queries and keys: of each sequence */
  int64_t heads, key_heads, depth;  /* heads: of queries */
  float scale;
};

/* Returns the shape of a forward or backward node whose shapes have been inferred. */
struct attention_shape attention_shape_of(const struct neap_graph *graph, const struct node *node);

#endif
