/* The shape of attention; queries, keys and values are separate tensors or one packed tensor. */
#ifndef NEAP_OP_ATTENTION_H
#define NEAP_OP_ATTENTION_H

#include "op/op.h"

/* The slot of the queries' places, forward and backward; nodes without places have fewer inputs. Backward,
 * with `length`, it has the numbers of the rows of each sequence that are given of y and dy, and of q unless
 * it is packed: dq is that of these rows, and 0 elsewhere where it is packed. Logarithms are those of all
 * rows. */
enum { ATTENTION_PLACES = 4, ATTENTION_BACK_PLACES = 7, ATTENTION_BACK_ROWS = ATTENTION_BACK_PLACES };

struct attention_shape {
  int64_t sequences, queries, keys; /* queries and keys: of each sequence */
  int64_t length;                   /* of the queries, of which some are given; else `queries` */
  int64_t heads, key_heads, depth;  /* heads: of queries */
  float scale;
};

/* Returns the shape of a forward or backward node whose shapes have been inferred. */
struct attention_shape attention_shape_of(const struct neap_graph *graph, const struct node *node);

#endif
