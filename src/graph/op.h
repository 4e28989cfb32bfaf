/* The operator table: one row an operator. */
#ifndef NEAP_GRAPH_OP_H
#define NEAP_GRAPH_OP_H

#include "graph/graph.h"

/* What a gradient builder works with (src/grad drives it). */
struct gradient {
  struct neap_graph *graph;
  int32_t *of;        /* tensor -> its gradient so far; -1: none */
  const bool *needed; /* tensor -> whether anything wants its gradient */
};

/* Shape inference: fills outputs[i] (name, dtype, rank, dims) from the inputs and attributes. Errors name the
 * operator and the shapes. */
typedef neap_status op_infer(const struct neap_graph *graph, const struct node *node, struct tensor *outputs);

/* Appends the nodes that add this node's share to the gradients of its inputs, given those of its outputs. */
typedef neap_status op_gradient(struct gradient *gradient, const struct node *node);

struct op_row {
  const char *name, *summary;
  int32_t output_count;
  op_infer *infer;       /* NULL: an operator that only gradients, optimizers or lowering make */
  op_gradient *gradient; /* NULL: nothing flows back */
  const struct inplace_pair *inplace;
  int32_t inplace_count;
  double (*flops)(const struct neap_graph *graph, const struct node *node); /* NULL: bound by its bytes */
};

extern const struct op_row op_rows[OP_COUNT];

/* Adds a forward node and its outputs after checking and inferring shapes; `outputs` gets the row's count of
 * ids. */
neap_status graph_apply(struct neap_graph *graph, enum op op, const char *name,
                        const struct attributes *attributes, const int32_t *inputs, int32_t input_count,
                        int32_t *outputs);

/* A gradient node with one output of the shape of `like`: appends it and adds its output to the gradient of
 * `target` (a sum in place where there is one already). Does nothing when nobody needs the gradient. */
neap_status gradient_emit(struct gradient *gradient, enum op op, const struct node *forward, int32_t target,
                          const int32_t *inputs, int32_t input_count);
/* Adds the tensor `share` to the gradient of `target`. */
neap_status gradient_add(struct gradient *gradient, int32_t target, int32_t share);

/* FLOPs of a node, and bytes that it reads and writes with elements of four bytes. */
double node_flops(const struct neap_graph *graph, const struct node *node);
double node_bytes(const struct neap_graph *graph, const struct node *node);

#endif
