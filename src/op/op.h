/* The operator table: one row for each operator, in the file of its family. */
#ifndef NEAP_OP_OP_H
#define NEAP_OP_OP_H

#include "graph/graph.h"

enum op {
#define OP(NAME, id) OP_##NAME,
#include "op/list.h"
#undef OP
  OP_COUNT
};

/* Slots of the inputs of OP_CONV. */
enum { CONV_X, CONV_WEIGHTS, CONV_ADDEND, CONV_BIAS };

/* Slots of the inputs of OP_CONV_BACKWARD_DATA. The addend is given only where the convolution is a product
 * of each pixel's channels: 1x1 kernels, stride 1, no padding, no groups. */
enum { CONV_BACK_WEIGHTS, CONV_BACK_GRADIENT, CONV_BACK_ADDEND };

/* Slots of the inputs of OP_BATCH_NORM. The addend, of the shape of x, is added before ReLU. */
enum { NORM_X, NORM_MEAN, NORM_VARIANCE, NORM_GAMMA, NORM_BETA, NORM_ADDEND, NORM_INPUTS };

/* Slots of the inputs of OP_LINEAR_CROSS_ENTROPY and of its gradient. BEFORE and CORRECT_BEFORE: the results
 * of earlier rows, to which these are added. Labels are those of all rows. */
enum {
  LOSS_X,
  LOSS_WEIGHTS,
  LOSS_LABELS,
  LOSS_BIAS,
  LOSS_BEFORE,
  LOSS_CORRECT_BEFORE,
  LOSS_BACK_LOG_SUM = LOSS_BEFORE,
  LOSS_BACK_GRADIENT
};

/* Slots of the inputs of OP_DENSIFY: the values of all sparse parameters; where this parameter's values
 * begin, [1] of i32; and its positions, in its shape and in the dense tensor's memory order. Positions of
 * type BIT: 1 where there is a value. Of type BLOCK: the number of values in this and earlier blocks of
 * INDEX_BLOCK elements; INDICES, u16, then has each value's place in its block. */
enum { DENSIFY_VALUES, DENSIFY_OFFSET, DENSIFY_POSITIONS, DENSIFY_INDICES, DENSIFY_INPUTS };

/* Slots of OP_ACCUMULATE_SPARSE. It changes a part of the sums that no other node reads or changes before the
 * step ends. The offset is marked as updated instead of the sums, so that readers of this part run first. */
enum {
  SPARSE_VALUES,
  SPARSE_GRADIENT,
  SPARSE_SUM,
  SPARSE_OFFSET,
  SPARSE_POSITIONS,
  SPARSE_INDICES,
  SPARSE_INPUTS
};

/* An update of the values of all sparse parameters has more inputs: after its own, which it fills up to this
 * number, the indices or NO_TENSOR, then each parameter's offset and positions. With these, 16-bit values
 * round as they would in the dense tensors. */
enum { UPDATE_SLOTS = 4 };

/* Slots of OP_CACHE_WRITE; the position is [1] i32. */
enum { CACHE_STATE, CACHE_ROWS, CACHE_POSITION, CACHE_INPUTS };

/* Slots of OP_ROTARY; the position [1] i32 is added to that of the first row. */
enum { ROTARY_X, ROTARY_POSITION, ROTARY_INPUTS };

/* Slots of OP_EXPERT_LINEAR, whose gradients have the ends in the same one, and of OP_EXPERT_SUM. */
enum { EXPERT_X, EXPERT_WEIGHTS, EXPERT_ENDS, EXPERT_INPUTS };
enum { SUM_Y, SUM_WEIGHTS, SUM_PLACES, SUM_GRADIENT };

/* Slots of OP_RECURRENT_BACKWARD_WEIGHTS: the state after each time, the state before the first, the gradient
 * of the product with the weights, and the tensor that the result is added to. */
enum { RECURRENT_Y, RECURRENT_H0, RECURRENT_GRADIENT, RECURRENT_ADDEND };

/* The state of building gradients; src/grad drives it. */
struct gradient {
  struct neap_graph *graph;
  int32_t *of;        /* tensor -> its gradient so far, or NO_TENSOR. The loss has none: it is 1 */
  const bool *needed; /* tensor -> whether anything wants its gradient */
};

/* Infers shapes: fills outputs[i] (name, dtype, rank, dims) from the inputs and attributes. Errors name the
 * operator and the shapes. */
typedef neap_status op_infer(const struct neap_graph *graph, const struct node *node, struct tensor *outputs);

/* Appends the nodes that add this node's share to the gradients of its inputs, given those of its outputs. */
typedef neap_status op_gradient(struct gradient *gradient, const struct node *node);

/* The change that evaluation makes to an operator of the forward pass. */
enum evaluation {
  EVALUATION_SAME,
  EVALUATION_IDENTITY, /* it gives its first input */
  EVALUATION_NONE,     /* it is left out */
  EVALUATION_RUNNING   /* batch statistics among its inputs are replaced by the running ones */
};

/* Changes the attributes of an operator for evaluation. */
typedef void op_evaluated(union attributes *attributes);

/* The split of a node into nodes over some of the rows (dimension 0) of its operands. Bit i is operand i, all
 * bits any number of operands. Each part gets all of an operand that is not named. Zeroed if the node does
 * not split. */
struct row_split {
  uint32_t inputs, outputs; /* operands that are cut into rows */
  uint32_t sums;            /* outputs that are the sum of the parts' results */
};

/* The way in which several processes (ranks) run a node. Most nodes run on each rank alone. */
enum across_ranks {
  ACROSS_NONE,
  ACROSS_SUM,   /* input 1, a gradient, is added to this rank's share of input 2, rank after rank */
  ACROSS_WHOLE, /* once for each rank, with that rank's values, on every rank */
  ACROSS_SHARE, /* on a share of the elements, if an operand is held in shares */
  ACROSS_ALIKE, /* on every rank with the same values: what is held in shares, all ranks get all of */
  ACROSS_GATHER /* all ranks get all shares of input 0, as often as the plan says, which is the same on all */
};

enum { ALL_OPERANDS = -1 };

/* Returns the inputs that a gradient reads exactly, as op_row.exact has them, by its attributes. */
typedef uint32_t op_exact(const struct node *node);

/* For splits that depend on shapes and attributes: changes the row's split, or zeroes it. */
typedef void op_split(const struct neap_graph *graph, const struct node *node, struct row_split *split);

enum { MAX_SLOTS = 8 };

struct op_row {
  const char *name, *summary;
  const char *label; /* of the builder's names: "conv" for conv1, conv2, ...; NULL: it names none */
  int32_t output_count;
  op_infer *infer;                    /* NULL: an operator that only gradients, optimizers or lowering make */
  op_gradient *gradient;              /* NULL: nothing flows back */
  const struct inplace_pair *inplace; /* by slot of the inputs */
  int32_t inplace_count;
  double (*flops)(const struct neap_graph *graph, const struct node *node); /* NULL: bound by its bytes */
  const struct attribute_row *attributes;
  int32_t attribute_count;
  enum evaluation evaluation;
  op_evaluated *evaluated; /* NULL: its attributes stay */
  bool any_place; /* takes elements in any memory order, packed weights too: each is computed alone */
  bool seeds;     /* a loss: without a gradient of its own, its gradient node assumes d loss / d loss = 1 */
  int32_t slots;  /* of inputs, if some are optional: graph_apply adds those that are not given */
  type_set takes[MAX_SLOTS]; /* by slot: the types that a graph stores there; 0: TYPES_FLOAT (node_takes) */
  int32_t addend;  /* 1 + the slot of the tensor that the result is added to, if given; 0: none exists */
  int32_t lies_as; /* 1 + a slot: the output has the memory layout of this input, whoever chooses it; 0: no */
  struct row_split split;
  op_split *split_of; /* NULL: always as `split` says */
  enum across_ranks across;
  /* Inputs of a gradient, a bit each. `exact`: it takes the numbers as they are and not rounded, because it
   * jumps or has a pole there, or they are statistics. `sign`: it takes only their sign
   * (rewrite_compress). */
  uint32_t exact, sign;
  op_exact *exact_of; /* NULL: always as `exact` says */
};

/* Fields of a row: its in-place pairs and its attributes, given as arrays. */
#define ROW_INPLACE(pairs)   .inplace = pairs, .inplace_count = sizeof(pairs) / sizeof *(pairs)
#define ROW_ATTRIBUTES(rows) .attributes = rows, .attribute_count = sizeof(rows) / sizeof *(rows)

/* In-place pairs that many operators have: output 0 in input 0, in input 1, in either, in either with input 1
 * first. */
extern const struct inplace_pair inplace_first[1], inplace_second[1], inplace_either[2], inplace_later[2];

#define OP(NAME, id) extern const struct op_row op_row_##id;
#include "op/list.h"
#undef OP

/* Rows by enum op. */
extern const struct op_row *const op_rows[OP_COUNT];

static inline const struct op_row *node_row(const struct node *node) { return op_rows[node->op]; }

/* Adds a forward node and its outputs after checking and inferring shapes; `outputs` gets the row's count of
 * ids. Optional inputs after the last given one may be left out. */
neap_status graph_apply(struct neap_graph *graph, enum op op, const char *name,
                        const union attributes *attributes, const int32_t *inputs, int32_t input_count,
                        int32_t *outputs);

/* The types that a slot of a node takes. Slots beyond MAX_SLOTS come in pairs, as the last two do. */
type_set node_takes(const struct node *node, int32_t slot);

/* Returns the inputs that a node reads exactly (op_row.exact). */
uint32_t node_exact(const struct node *node);

/* Fails with NEAP_INVALID_ARGUMENT, naming operator, slot and tensor, if an input has a type that its slot
 * does not take. A slot for one type of real numbers takes all of them: a backend converts. */
neap_status node_check_types(const struct neap_graph *graph, const struct node *node);

/* Returns how a node splits into parts. */
struct row_split node_split(const struct neap_graph *graph, const struct node *node);

/* Splits that several operators have. Along an axis: no split if that is dimension 0. Broadcast: each part
 * gets all of an input whose dimension 0 is not that of the output. */
op_split split_along_axis, split_broadcast;

/* FLOPs of a node, and bytes that it reads and writes. */
double node_flops(const struct neap_graph *graph, const struct node *node);
double node_bytes(const struct neap_graph *graph, const struct node *node);

/* ---- Helpers of the families' files ---- */

/* Returns input `i` of a node, or NULL if it is not given. */
const struct tensor *node_input(const struct neap_graph *graph, const struct node *node, int32_t i);

/* Make a value of the shape and type of `t`; a value of rank 0 to 2. */
struct tensor value_like(const struct tensor *t);
struct tensor value_of(neap_dtype dtype, int32_t rank, int64_t d0, int64_t d1);

/* Fails unless input 0 is real and has `rank` dimensions, or, if `rank` is negative, at least -rank. The
 * message shows `shape`. */
neap_status need_real(const struct neap_graph *graph, const struct node *node, int32_t rank,
                      const char *shape);

/* Fails unless both have one type. */
neap_status need_same_type(const struct node *node, const struct tensor *x, const struct tensor *y);

/* Fails unless both have one shape and one type. */
neap_status need_same_shape(const struct node *node, const struct tensor *x, const struct tensor *y);

/* Fails unless `x` has this axis, counted from the front. */
neap_status need_axis(const struct node *node, const struct tensor *x, int64_t axis);

/* Fails unless a bias, if given, is [channels] of the type of `x`. */
neap_status need_bias(const struct node *node, const struct tensor *bias, const struct tensor *x,
                      int64_t channels);

/* Fails unless a position, if given, is [1] of i32. */
neap_status need_position(const struct node *node, const struct tensor *position);

/* Fills `output` with the common type and the shape that both are broadcast to; fails if their types differ.
 * The last `kept` dimensions are not compared: they are those of the tensor with more dimensions. */
neap_status infer_broadcast(const struct node *node, const struct tensor *x, const struct tensor *y,
                            int32_t kept, struct tensor *output);

/* Infers the shape and type of the first input. */
op_infer infer_same;

/* Returns true if shapes and types are equal. */
bool same_shape(const struct tensor *a, const struct tensor *b);

/* ---- Gradients ---- */

/* Adds a backward node with its row's shape inference, as graph_apply adds a forward one, and gives its first
 * output. */
neap_status gradient_apply(struct gradient *gradient, enum op op, const char *name,
                           union attributes attributes, const int32_t *inputs, int32_t input_count,
                           int32_t *output);

/* Adds `share` to the gradient of `target`, which was broadcast to the shape of `share`. Sums over the axes
 * that were made longer. */
neap_status gradient_add_reduced(struct gradient *gradient, const char *name, int32_t target, int32_t share);

/* Returns true if the gradient of `target` is needed; false for NO_TENSOR. */
bool gradient_wanted(const struct gradient *gradient, int32_t target);

/* Appends a backward node with one output of the shape of `like`. */
neap_status gradient_node(struct gradient *gradient, enum op op, const char *name,
                          union attributes attributes, int32_t like, const int32_t *inputs,
                          int32_t input_count, int32_t *output);

/* Appends a gradient node with one output of the shape of `target` and adds its output to the gradient of
 * `target`, in place if there is one already. Does nothing if the gradient is not needed. */
neap_status gradient_emit(struct gradient *gradient, enum op op, const struct node *forward, int32_t target,
                          const int32_t *inputs, int32_t input_count);
/* GRADIENT_EMIT(gradient, op, forward, target, inputs...) */
#define GRADIENT_EMIT(gradient, op, forward, target, ...)                                                    \
  gradient_emit(gradient, op, forward, target, (const int32_t[]){__VA_ARGS__},                               \
                sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Adds the tensor `share` to the gradient of `target`. */
neap_status gradient_add(struct gradient *gradient, int32_t target, int32_t share);

/* Takes out the gradient so far of `target`, for a node that adds its share to it in the same pass. Returns
 * NO_TENSOR if no gradient exists yet or it has another shape; gradient_add then does the rest. */
int32_t gradient_take(struct gradient *gradient, int32_t target);

#endif
