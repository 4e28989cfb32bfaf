/* Graphs: what to compute. Tensors and nodes, no data. Made by the builder (forward), extended by src/grad
 * (backward, update), changed by src/rewrite and src/kernel into new graphs; immutable once handed on. */
#ifndef NEAP_GRAPH_GRAPH_H
#define NEAP_GRAPH_GRAPH_H

#include "base/dtype.h"
#include "base/region.h"
#include "base/vector.h"
#include "graph/attributes.h"
#include "step/step.h"

/* Inputs of a graph whose records have two labels (neap_softmax_cross_entropy_mixed). */
#define OTHER_LABELS "other_labels"
#define LABEL_SHARES "label_shares"

struct tensor {
  const char *name;
  neap_dtype dtype;
  neap_role role;
  neap_initial initial; /* of a parameter or state */
  float scale;          /* of NEAP_INITIAL_NORMAL the deviation, of NEAP_INITIAL_UNIFORM the largest size */
  bool frozen;          /* a parameter that training leaves as it is */
  bool kept;            /* a parameter that stays trained beside adapters: of a head that is learned */
  bool adapter; /* a parameter that no file of the model has, of rewrite_lora or a side net: patterns of the
                   model's names pass over it */
  float rate;   /* of a parameter: the factor of its learning rate; 0: 1 */
  float origin; /* of a parameter: the number here that is 0 in its file; weight decay draws it there */
  int32_t norms_of; /* of a parameter of adapters: 1 + the axis of its layer's weights whose norms it begins
                       with; 0: it begins as `initial` says */
  bool linear;      /* a parameter that rewrite_quantise found to be the weight of a linear layer */
  neap_dtype file_dtype; /* of a parameter: its type in the model's file, where that is quantised */
  uint64_t file_bytes;   /* of a parameter: its bytes in the model's file, which rows of it can be read
                            from at any time; 0: it is in none */
  bool on_disk;          /* a parameter that has no bytes in memory: it is read from the file */
  bool spilled;          /* a variable in the session's file on disk, which has no bytes in memory (--disk) */
  const char *state_of;  /* of a state: the parameter that it goes with; NULL: running statistics */
  bool image;            /* made of an input's bytes: it lies in memory as an input does */
  bool perturbed;        /* a parameter that all nodes but updates read with noise (rewrite_perturb) */
  bool carried;          /* a state that a prediction leaves for the next: no file needs to have it */
  bool prepared;         /* a carried state that predictions only read: neap_session_prepare stores in it */
  int32_t rule;          /* of a parameter: 1 + the row of optimizer_rows that updates it; 0: not decided */
  int64_t block, blocked; /* of a parameter: the blocks of its second moment (struct matrix_shape) */
  bool states_8bit;       /* of a parameter: its states are in blocks of 8 bits */
  bool plain;             /* lies row by row in memory, whatever its readers prefer */
  bool average;           /* a state that is moved between steps: no node changes it */
  bool sum;               /* a state that holds something within a step alone: what micro-batches add up to */
  int32_t shares;         /* above 1: the number of shares it lies in; a process has one (kernel/ranks.h) */
  int32_t lies_on; /* of a pipeline: 1 + the rank that has a variable for all; 0: every rank has its own */
  bool elsewhere;  /* of a pipeline: a variable that this rank has no bytes of */
  bool common;     /* of a pipeline: it lies in memory that all of its ranks reach */
  int32_t copies;  /* above 1: that many micro-batches have one each, one behind the other */
  int32_t rank;
  int64_t dims[NEAP_MAX_RANK];
  int64_t elements;
  int32_t producer;  /* node; -1: resident */
  int32_t view_of;   /* the tensor whose elements these are, in the same order, under another shape; -1: none.
                        Never itself a view. */
  int32_t kept_rows; /* 1 + the tensor of the rows at which alone its gradient flows back; 0: all */
  int32_t
      lies_in; /* 1 + the variable in whose bytes this value is made, by adding to it; 0: it has its own */
};

/* Elements of a row: those that share a first index. */
static inline int64_t row_elements(const struct tensor *t) { return t->elements / t->dims[0]; }

/* A shape as messages have it: "[32, 10]". */
struct shape_text {
  char text[24 * NEAP_MAX_RANK];
};
struct shape_text dims_text(int32_t rank, const int64_t *dims);
static inline struct shape_text shape_text(const struct tensor *t) { return dims_text(t->rank, t->dims); }

enum { NODE_MAX_OUTPUTS = 4, NO_TENSOR = -1 /* in the place of an optional input that is not given */ };

struct node {
  const char *name;
  int32_t op; /* an enum op (op/op.h) */
  neap_pass pass;
  union attributes attributes;
  int32_t input_count, output_count, update_count;
  const int32_t *inputs, *outputs, *updates; /* tensor ids; an optional input may be NO_TENSOR */
  const float
      *numbers; /* attributes that are a list: of Rotary the divisors of its frequencies; NULL: none */
  int32_t number_count;
};

/* Returns true if a node changes the variable in one of its slots. */
static inline bool node_updates(const struct node *node, int32_t slot) {
  for (int32_t i = 0; i < node->update_count; i++)
    if (node->updates[i] == node->inputs[slot]) return true;
  return false;
}

/* A tensor that whoever runs the graph can read by name. */
struct graph_output {
  const char *name;
  int32_t tensor;
};

struct neap_graph {
  struct region region; /* owns the names and id lists */
  const char *name;
  VECTOR(struct tensor) tensors;
  VECTOR(struct node) nodes; /* in an order that is valid as it is */
  VECTOR(struct graph_output) outputs;
  int32_t loss, correct; /* scalars, of one element: real and i32; -1: none */
  int32_t norm;          /* a scalar, f32: the sum of the squares of all gradients; -1: it is not made */
};

neap_status graph_create(const char *name, struct neap_graph **out);

/* Adds a tensor; its producer, view and element count are set here. `name` is copied. Errors: a dimension
 * below 1, more than NEAP_MAX_RANK of them, an element count that overflows. */
neap_status graph_add_tensor(struct neap_graph *graph, struct tensor tensor, int32_t *id);

/* Adds a value with the shape and type of tensor `like`. */
neap_status graph_add_like(struct neap_graph *graph, int32_t like, const char *name, int32_t *id);

/* Adds a node that makes `outputs`, which exist already and have no producer. Lists and name are copied.
 * NEAP_TOO_LARGE: more than NODE_MAX_OUTPUTS. */
neap_status graph_add_node(struct neap_graph *graph, struct node node);

/* Adds the same elements as `id` under another shape, which has as many. */
neap_status graph_add_view(struct neap_graph *graph, int32_t id, int32_t rank, const int64_t *dims,
                           int32_t *view);

/* Names a tensor as an output. The name is copied. */
neap_status graph_add_output(struct neap_graph *graph, const char *name, int32_t tensor);
bool graph_is_output(const struct neap_graph *graph, int32_t tensor);

/* Returns true if the graph has parameters of adapters. */
bool graph_has_adapters(const struct neap_graph *graph);

/* The tensor whose bytes `id` means: itself unless it is a view. */
static inline int32_t graph_storage(const struct neap_graph *graph, int32_t id) {
  const int32_t base = graph->tensors.data[id].view_of;
  return base < 0 ? id : base;
}

/* Readers of each tensor's storage, node ids rising, each once: readers[start[t]] to readers[start[t + 1]].
 * Both arrays come from `region`. */
neap_status graph_readers(const struct neap_graph *graph, struct region *region, const int32_t **start,
                          const int32_t **readers);

#endif
