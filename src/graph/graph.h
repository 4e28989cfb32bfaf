/* Graphs: what to compute. Tensors and nodes, no data. Made by the builder (forward), extended by src/grad
 * (backward, update), changed by src/rewrite and src/kernel into new graphs; immutable once handed on. */
#ifndef NEAP_GRAPH_GRAPH_H
#define NEAP_GRAPH_GRAPH_H

#include "base/region.h"
#include "base/vector.h"
#include "step/step.h"

/* How a variable begins. */
enum initial { INITIAL_ZERO, INITIAL_ONE, INITIAL_HE };

struct tensor {
  const char *name;
  neap_dtype dtype;
  neap_role role;
  enum initial initial; /* of a parameter or state */
  int32_t rank;
  int64_t dims[NEAP_MAX_RANK];
  int64_t elements;
  int32_t producer; /* node; -1: resident */
  int32_t view_of;  /* the tensor whose elements these are, in the same order, under another shape; -1: none.
                       Never itself a view. */
};

/* A node's operands. A concatenation has the most: one for each layer of a dense block. */
enum { NODE_MAX_INPUTS = 128, NODE_MAX_OUTPUTS = 4 };

/* One row of an operator's attributes serves all operators: each reads what concerns it. */
struct attributes {
  int64_t stride, padding, dilation, groups, size; /* convolution and pooling, both axes alike */
  int64_t padding_by_axis[2];                      /* convolution: of rows and columns; 0: padding */
  int64_t first;                                   /* slice: its first channel; size: how many */
  float epsilon, momentum;                         /* batch norm; momentum of SGD */
  float probability;                               /* dropout */
  float smoothing;                                 /* cross-entropy */
  float alpha, beta, k;                            /* local response normalisation */
  float weight_decay, beta1, beta2;                /* optimizers */
  bool nesterov;
  bool ceil;              /* pooling: a window that the image fills in part counts, too */
  bool count_padding;     /* average pool: padding counts as zeros */
  bool bias;              /* convolution, linear: the last input is a bias */
  bool addend;            /* convolution, slice, batch norm's gradient: an input is added to the result */
  bool relu;              /* batch norm and its gradient: with ReLU behind it; max pool: before it */
  float ceiling;          /* of that ReLU; 0: none */
  int32_t stream;         /* dropout: which random stream, the same in its gradient */
  int64_t top, left;      /* crop: its corner in the input */
  int64_t height, width;  /* crop, resize: of the output */
  bool align_corners;     /* resize */
  int64_t output_padding; /* transposed convolution: rows and columns that the size leaves open */
};

/* Operators. Rows of the table in ops.c stand in this order. A gradient operator is named after its forward
 * one. */
enum op {
  OP_CONV,                           /* x, w, [addend], [bias] -> y */
  OP_BATCH_NORM_STATISTICS,          /* x -> mean, variance */
  OP_BATCH_NORM,                     /* x, mean, variance, gamma, beta -> y */
  OP_RELU,                           /* x -> y */
  OP_ADD,                            /* a, b -> sum */
  OP_MAX_POOL,                       /* x -> y, index */
  OP_AVERAGE_POOL,                   /* x -> y */
  OP_GLOBAL_AVERAGE_POOL,            /* x -> y */
  OP_LINEAR,                         /* x, w, [bias] -> y */
  OP_DROPOUT,                        /* x -> y; its own gradient */
  OP_RELU6,                          /* x -> y */
  OP_CONCAT,                         /* parts... -> y: their channels one after the other */
  OP_SLICE,                          /* x, [addend] -> some channels of x; also concat's gradient */
  OP_LOCAL_RESPONSE_NORM,            /* x -> y */
  OP_SOFTMAX_CROSS_ENTROPY,          /* logits, labels -> loss, correct */
  OP_CONV_TRANSPOSED,                /* x, w, [bias] -> y; its gradients are Conv, ConvBackwardWeights */
  OP_CROP,                           /* x -> y */
  OP_RESIZE,                         /* x -> y */
  OP_ADAPTIVE_AVERAGE_POOL,          /* x -> y */
  OP_CONV_BACKWARD_DATA,             /* w, dy -> dx */
  OP_CONV_BACKWARD_WEIGHTS,          /* x, dy -> dw */
  OP_BIAS_BACKWARD,                  /* dy -> dbias */
  OP_BATCH_NORM_BACKWARD,            /* x, dy, mean, variance, gamma, beta, [addend] -> dx, dgamma, dbeta */
  OP_RELU_BACKWARD,                  /* y, dy -> dx */
  OP_MAX_POOL_BACKWARD,              /* index, dy -> dx */
  OP_AVERAGE_POOL_BACKWARD,          /* dy -> dx */
  OP_GLOBAL_AVERAGE_POOL_BACKWARD,   /* dy -> dx */
  OP_LINEAR_BACKWARD_DATA,           /* w, dy -> dx */
  OP_LINEAR_BACKWARD_WEIGHTS,        /* x, dy -> dw */
  OP_RELU6_BACKWARD,                 /* y, dy -> dx */
  OP_SLICE_BACKWARD,                 /* dy -> dx, 0 outside the slice */
  OP_LOCAL_RESPONSE_NORM_BACKWARD,   /* x, dy -> dx */
  OP_SOFTMAX_CROSS_ENTROPY_BACKWARD, /* logits, labels -> dlogits */
  OP_CROP_BACKWARD,                  /* dy, [addend] -> dx */
  OP_RESIZE_BACKWARD,                /* dy -> dx */
  OP_ADAPTIVE_AVERAGE_POOL_BACKWARD, /* dy -> dx */
  OP_RELU_MASK,                      /* x -> y, mask; made by a rewrite */
  OP_RELU_MASK_BACKWARD,             /* mask, dy -> dx */
  OP_SGD,                            /* w, dw, [m]; updates w, m */
  OP_ADAMW,                          /* w, dw, m, v; updates w, m, v */
  OP_RUNNING_STATISTICS, /* mean, variance, running mean, running variance; updates the last two */
  OP_REORDER,            /* x -> x in another memory layout; made in lowering */
  OP_COUNT
};

struct node {
  const char *name;
  enum op op;
  neap_pass pass;
  struct attributes attributes;
  int32_t input_count, output_count, update_count;
  const int32_t *inputs, *outputs, *updates; /* tensor ids */
};

struct neap_graph {
  struct region region; /* owns the names and id lists */
  const char *name;
  VECTOR(struct tensor) tensors;
  VECTOR(struct node) nodes; /* in an order that is valid as it is */
  int32_t loss, correct;     /* scalars [1]: f32 and i32; -1: none yet */
};

neap_status graph_create(const char *name, struct neap_graph **out);

/* Adds a tensor; its producer, view and element count are set here. `name` is copied. Errors: a dimension
 * below 1, more than NEAP_MAX_RANK of them, an element count that overflows. */
neap_status graph_add_tensor(struct neap_graph *graph, struct tensor tensor, int32_t *id);

/* Adds a value with the shape and type of tensor `like`. */
neap_status graph_add_like(struct neap_graph *graph, int32_t like, const char *name, int32_t *id);

/* Adds a node that makes `outputs`, which exist already and have no producer. Lists and name are copied.
 * NEAP_TOO_LARGE: more operands than NODE_MAX_... */
neap_status graph_add_node(struct neap_graph *graph, struct node node);

/* The tensor whose bytes `id` stands for: itself unless it is a view. */
static inline int32_t graph_storage(const struct neap_graph *graph, int32_t id) {
  const int32_t base = graph->tensors.data[id].view_of;
  return base < 0 ? id : base;
}

/* Readers of each tensor's storage, node ids rising, each once: readers[start[t]] to readers[start[t + 1]].
 * Both arrays come from `region`. */
neap_status graph_readers(const struct neap_graph *graph, struct region *region, const int32_t **start,
                          const int32_t **readers);

/* Padding of a convolution's rows (axis 0) or columns (axis 1). */
static inline int64_t padding_of(const struct attributes *a, int axis) {
  return a->padding_by_axis[axis] != 0 ? a->padding_by_axis[axis] : a->padding;
}

size_t dtype_bytes(neap_dtype dtype); /* of an element; 0 for a bit: */
uint64_t bit_bytes(uint64_t count);   /* of so many NEAP_BIT, eight in a byte, the first the lowest */

#endif
