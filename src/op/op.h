/* The operator table: one row an operator, in the file of its family. */
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

/* Slots of the inputs of OP_LINEAR_CROSS_ENTROPY, and of its gradient. LOSS and CORRECT: what earlier rows
 * gave, to which these are added. Labels are those of all rows. */
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

/* Slots of the inputs of OP_DENSIFY: the values of all sparse parameters, where this one's begin [1] i32, and
 * which of its elements have one, of its shape, in the order in which the dense tensor lies in memory. Of
 * type BIT: 1 where there is a value. Of type BLOCK: how many values this and earlier blocks of INDEX_BLOCK
 * elements have; INDICES, u16, then has, beside each value, its element's place in the block. */
enum { DENSIFY_VALUES, DENSIFY_OFFSET, DENSIFY_POSITIONS, DENSIFY_INDICES, DENSIFY_INPUTS };

/* Slots of OP_ACCUMULATE_SPARSE. It changes a part of the sums that no other node reads or changes before the
 * step ends; the offset is marked as updated in their place, so that what reads this part comes before. */
enum {
  SPARSE_VALUES,
  SPARSE_GRADIENT,
  SPARSE_SUM,
  SPARSE_OFFSET,
  SPARSE_POSITIONS,
  SPARSE_INDICES,
  SPARSE_INPUTS
};

/* An update of the values of all sparse parameters has behind its own inputs, which it fills up to this many,
 * the indices or NO_TENSOR, then offset and positions of each parameter: where values are of 16 bits, these
 * round as they would in the dense tensors. */
enum { UPDATE_SLOTS = 4 };

/* Slots of OP_CACHE_WRITE; the position is [1] i32. */
enum { CACHE_STATE, CACHE_ROWS, CACHE_POSITION, CACHE_INPUTS };

/* Slots of OP_ROTARY; the position [1] i32 is added to that of the first row. */
enum { ROTARY_X, ROTARY_POSITION, ROTARY_INPUTS };

/* Slots of OP_RECURRENT_BACKWARD_WEIGHTS: the state after each time, that before the first, the gradient of
 * what the weights gave, and what the result is added to. */
enum { RECURRENT_Y, RECURRENT_H0, RECURRENT_GRADIENT, RECURRENT_ADDEND };

/* What a gradient builder works with (src/grad drives it). */
struct gradient {
  struct neap_graph *graph;
  int32_t *of;        /* tensor -> its gradient so far; NO_TENSOR: none. The loss has none: it is 1 */
  const bool *needed; /* tensor -> whether anything wants its gradient */
};

/* Shape inference: fills outputs[i] (name, dtype, rank, dims) from the inputs and attributes. Errors name the
 * operator and the shapes. */
typedef neap_status op_infer(const struct neap_graph *graph, const struct node *node, struct tensor *outputs);

/* Appends the nodes that add this node's share to the gradients of its inputs, given those of its outputs. */
typedef neap_status op_gradient(struct gradient *gradient, const struct node *node);

/* What becomes of an operator of the forward pass where a graph evaluates. */
enum evaluation {
  EVALUATION_SAME,
  EVALUATION_IDENTITY, /* it gives its first input */
  EVALUATION_NONE,     /* it is left out */
  EVALUATION_RUNNING   /* batch statistics among its inputs are replaced by the running ones */
};

/* What changes in the attributes of an operator where a graph evaluates. */
typedef void op_evaluated(union attributes *attributes);

/* How a node falls into nodes over some of the rows (dimension 0) of its operands. Bit i means operand
 * i, all bits for any number of them; an operand that is not named is given whole to each part. Zeroed: it
 * does not. */
struct row_split {
  uint32_t inputs, outputs; /* that are cut into rows */
  uint32_t sums;            /* outputs that are the sum of what the parts give */
};

/* How several processes (ranks) run a node. Most run it each by itself. */
enum across_ranks {
  ACROSS_NONE,
  ACROSS_SUM,   /* input 1, a gradient, is added to this rank's share of input 2, rank after rank */
  ACROSS_WHOLE, /* once for each rank, with the values that this one has, on every rank */
  ACROSS_SHARE, /* on a share of the elements, where an operand lies in shares */
  ACROSS_GATHER /* all get all shares of input 0; as often as the plan says, which is the same on all */
};

enum { ALL_OPERANDS = -1 };

/* Where the split depends on shapes and attributes: changes the row's, or zeroes it. */
typedef void op_split(const struct neap_graph *graph, const struct node *node, struct row_split *split);

enum { MAX_SLOTS = 8 };

struct op_row {
  const char *name, *summary;
  const char
      *label; /* of the names that the builder gives: "conv" for conv1, conv2, ...; NULL: it makes none */
  int32_t output_count;
  op_infer *infer;                    /* NULL: an operator that only gradients, optimizers or lowering make */
  op_gradient *gradient;              /* NULL: nothing flows back */
  const struct inplace_pair *inplace; /* by slot of the inputs */
  int32_t inplace_count;
  double (*flops)(const struct neap_graph *graph, const struct node *node); /* NULL: bound by its bytes */
  const struct attribute_row *attributes;
  int32_t attribute_count;
  enum evaluation evaluation;
  op_evaluated *evaluated;   /* NULL: its attributes stay */
  bool any_place;            /* takes elements as they lie, packed weights too: each is worked on by itself */
  bool seeds;                /* a loss: its gradient assumes d loss / d loss = 1 where no gradient has come */
  int32_t slots;             /* of inputs, where some are optional: graph_apply fills up what is not given */
  type_set takes[MAX_SLOTS]; /* by slot: the types that a graph stores there; 0: TYPES_FLOAT (node_takes) */
  int32_t addend;  /* 1 + the slot of what the result is added to, where that is given; 0: none exists */
  int32_t lies_as; /* 1 + a slot: the output lies in memory as this input does, whoever chooses; 0: not */
  struct row_split split;
  op_split *split_of; /* NULL: always as `split` says */
  enum across_ranks across;
};

/* For a row: its in-place pairs and its attributes, given as arrays. */
#define ROW_INPLACE(pairs)   .inplace = pairs, .inplace_count = sizeof(pairs) / sizeof *(pairs)
#define ROW_ATTRIBUTES(rows) .attributes = rows, .attribute_count = sizeof(rows) / sizeof *(rows)

/* In-place pairs that many operators have: output 0 in input 0, in input 1, in either. */
extern const struct inplace_pair inplace_first[1], inplace_second[1], inplace_either[2], inplace_later[2];

#define OP(NAME, id) extern const struct op_row op_row_##id;
#include "op/list.h"
#undef OP

/* Rows by enum op. */
extern const struct op_row *const op_rows[OP_COUNT];

static inline const struct op_row *node_row(const struct node *node) { return op_rows[node->op]; }

/* Adds a forward node and its outputs after checking and inferring shapes; `outputs` gets the row's count of
 * ids. Optional inputs behind the last given one may be left out. */
neap_status graph_apply(struct neap_graph *graph, enum op op, const char *name,
                        const union attributes *attributes, const int32_t *inputs, int32_t input_count,
                        int32_t *outputs);

/* The types that a slot of a node takes. Slots beyond MAX_SLOTS come in pairs, as the last two do. */
type_set node_takes(const struct node *node, int32_t slot);

/* Whether the inputs of a node have types that their slots take. Real numbers of one type do for those of
 * another: a backend converts them. NEAP_INVALID_ARGUMENT names operator, slot and tensor. */
neap_status node_check_types(const struct neap_graph *graph, const struct node *node);

/* How a node falls into parts. */
struct row_split node_split(const struct neap_graph *graph, const struct node *node);

/* Splits that several operators have. Along an axis: not where that is dimension 0. Broadcast: an input whose
 * dimension 0 is not that of the output is given whole. */
op_split split_along_axis, split_broadcast;

/* FLOPs of a node, and bytes that it reads and writes. */
double node_flops(const struct neap_graph *graph, const struct node *node);
double node_bytes(const struct neap_graph *graph, const struct node *node);

/* ---- What the families' files share ---- */

/* Input `i` of a node; NULL where it is not given. */
const struct tensor *node_input(const struct neap_graph *graph, const struct node *node, int32_t i);

/* A value of the shape and type of `t`; a value of rank 0 to 2. */
struct tensor value_like(const struct tensor *t);
struct tensor value_of(neap_dtype dtype, int32_t rank, int64_t d0, int64_t d1);

/* Input 0 is real and has `rank` dimensions, or where that is negative at least -rank; the message says
 * `shape`. */
neap_status need_real(const struct neap_graph *graph, const struct node *node, int32_t rank,
                      const char *shape);

/* Both have one type. */
neap_status need_same_type(const struct node *node, const struct tensor *x, const struct tensor *y);

/* Both have one shape and one type. */
neap_status need_same_shape(const struct node *node, const struct tensor *x, const struct tensor *y);

/* There is such an axis, counted from the front. */
neap_status need_axis(const struct node *node, const struct tensor *x, int64_t axis);

/* A bias, where it is given, is [channels] of the type of `x`. */
neap_status need_bias(const struct node *node, const struct tensor *bias, const struct tensor *x,
                      int64_t channels);

/* A position, where it is given, is [1] of i32. */
neap_status need_position(const struct node *node, const struct tensor *position);

/* Fills `output` with the shape that both are broadcast to; both must be of one type, which it gets. The last
 * `kept` dimensions are not compared: it gets those of the longer one. */
neap_status infer_broadcast(const struct node *node, const struct tensor *x, const struct tensor *y,
                            int32_t kept, struct tensor *output);

/* Shape inference of what gives the shape and type of its first input. */
op_infer infer_same;

/* Equal shapes and types. */
bool same_shape(const struct tensor *a, const struct tensor *b);

/* ---- Gradients ---- */

/* Adds a backward node by its row's shape inference, as graph_apply does a forward one, and gives its first
 * output. */
neap_status gradient_apply(struct gradient *gradient, enum op op, const char *name,
                           union attributes attributes, const int32_t *inputs, int32_t input_count,
                           int32_t *output);

/* Adds `share` to the gradient of `target`, which was broadcast to the shape of `share`: summed over the axes
 * that were made longer. */
neap_status gradient_add_reduced(struct gradient *gradient, const char *name, int32_t target, int32_t share);

/* Whether anything wants the gradient of `target`; not of NO_TENSOR. */
bool gradient_wanted(const struct gradient *gradient, int32_t target);

/* Appends a backward node with one output of the shape of `like`. */
neap_status gradient_node(struct gradient *gradient, enum op op, const char *name,
                          union attributes attributes, int32_t like, const int32_t *inputs,
                          int32_t input_count, int32_t *output);

/* A gradient node with one output of the shape of `target`: appends it and adds its output to the gradient of
 * `target` (a sum in place where there is one already). Does nothing when nobody needs the gradient. */
neap_status gradient_emit(struct gradient *gradient, enum op op, const struct node *forward, int32_t target,
                          const int32_t *inputs, int32_t input_count);
/* GRADIENT_EMIT(gradient, op, forward, target, inputs...) */
#define GRADIENT_EMIT(gradient, op, forward, target, ...)                                                    \
  gradient_emit(gradient, op, forward, target, (const int32_t[]){__VA_ARGS__},                               \
                sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Adds the tensor `share` to the gradient of `target`. */
neap_status gradient_add(struct gradient *gradient, int32_t target, int32_t share);

/* For a node that adds its share to what has come to `target` already, in the same pass: takes that out.
 * NO_TENSOR: nothing has come, or under another shape; then gradient_add will do. */
int32_t gradient_take(struct gradient *gradient, int32_t target);

#endif
