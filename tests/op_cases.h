/* The list of operator cases. A row is an operator (or the few that one rewrite makes one of) on one shape.
 * Its network has parameters before and after it, so that gradients flow through all its inputs:
 *
 *     image -> stem (a 1x1 convolution or a linear layer) -> operator -> flatten, linear, cross-entropy
 *
 * The names of the stem's nodes and variables begin "stem.", the operator's "op.", the rest's "head.". */
#ifndef NEAP_TESTS_OP_CASES_H
#define NEAP_TESTS_OP_CASES_H

#include "grad/gradient.h"
#include "interpreter.h"
#include "rewrite/rewrite.h"

enum { OP_CASE_CLASSES = 5 };

/* A function on a shape. */
struct op_case {
  const char *name;
  neap_tensor (*apply)(neap_builder *b, neap_tensor x, const struct op_case *c);
  int64_t dims[4];     /* of the operator's input: [N, C, H, W]; H = 0: [N, K] */
  const void *options; /* of `apply`, which says their type */
  const char *scope;   /* whose nodes the case is about; NULL: "op" */
  float smoothing;     /* of labels */
  bool rounds;         /* to few bits: no derivative, and sums that differ in the last bit differ by more */
  bool dense;          /* a label for each pixel: the head is a 1x1 convolution */
  const char *store;   /* which parameters, that are frozen then, are stored in which quantised type */
};

#include "op_cases_images.h"
#include "op_cases_sequences.h"

struct linear_case {
  int64_t outputs;
  bool bias;
};

static inline neap_tensor apply_linear(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct linear_case *o = c->options;
  return neap_linear(b, x, o->outputs, o->bias);
}

/* Layers whose weights are stored in blocks; two of them read one weight. */
static inline neap_tensor apply_frozen(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct linear_case *o = c->options;
  const int64_t dims[] = {c->dims[1], c->dims[1]};
  neap_freeze(b, true);
  const neap_tensor w =
      neap_parameter(b, "op.w", 2, dims, (neap_parameter_options){NEAP_INITIAL_HE, 0, true, NEAP_F32});
  x = neap_matmul(b, neap_tanh(b, neap_matmul(b, x, w, false, false)), w, false, true);
  x = neap_linear(b, x, o->outputs, true);
  neap_freeze(b, false);
  return x;
}

static inline neap_tensor apply_dropout(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const float *o = c->options;
  return neap_dropout(b, x, *o);
}

/* Every other row of pixels becomes a channel of its own; convolutions on both sides of the reshape. */
static inline neap_tensor apply_reshape(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  const int64_t dims[] = {c->dims[0], c->dims[1] * 2, c->dims[2] / 2, -1};
  return neap_conv(b, neap_reshape(b, x, 4, dims), *o);
}

/* A view that batch norm and a sum read, and its storage that another sum reads. */
static inline neap_tensor apply_views(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t dims[] = {c->dims[0], c->dims[1] * 2, c->dims[2] / 2, -1};
  const neap_tensor view = neap_reshape(b, x, 4, dims), y = neap_add(b, view, apply_batch_norm(b, view, c));
  return neap_add(b, x, neap_reshape(b, y, 4, c->dims));
}

static inline neap_tensor apply_dropout_twice(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const float *o = c->options;
  return neap_dropout(b, neap_relu(b, neap_dropout(b, x, *o)), *o);
}

/* Nothing but ReLU's own gradient reads its output in the backward pass. */
static inline neap_tensor apply_relu_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_pool_options *o = c->options;
  return neap_max_pool(b, neap_relu(b, x), *o);
}

static inline neap_tensor apply_relu_dropout(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const float *o = c->options;
  return neap_dropout(b, neap_relu(b, x), *o);
}

static inline neap_tensor apply_conv_transposed(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_transposed_options *o = c->options;
  return neap_conv_transposed(b, x, *o);
}

static inline neap_tensor apply_crop(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_crop_options *o = c->options;
  return neap_crop(b, x, *o);
}

struct crop_and_pool {
  neap_crop_options crop;
  neap_pool_options pool;
};

/* A crop's gradient adds to what a max pool's has made. */
static inline neap_tensor apply_crop_and_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct crop_and_pool *o = c->options;
  const neap_tensor y = neap_crop(b, x, o->crop);
  return neap_add(b, y, neap_max_pool(b, x, o->pool));
}

struct resize_case {
  int64_t height, width;
  bool corners; /* aligned */
};

static inline neap_tensor apply_resize(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct resize_case *o = c->options;
  return neap_resize(b, x, o->height, o->width, o->corners);
}

static inline neap_tensor apply_adaptive_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t *o = c->options;
  return neap_adaptive_average_pool(b, x, *o);
}

static inline neap_tensor apply_relu6(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  for (int i = 0; i < 2; i++) x = neap_add(b, x, x); /* so that some exceed 6 */
  return neap_relu6(b, x);
}

/* Parts of other widths, one of them twice, and one that has another reader before and another behind. */
static inline neap_tensor apply_concat(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  const neap_tensor wide = neap_conv(b, x, *o), parts[] = {x, wide, neap_relu(b, x), wide};
  const neap_tensor y = neap_concat(b, parts, 4, 1);
  return neap_add(b, neap_conv(b, y, *o), neap_relu(b, wide));
}

static inline neap_tensor apply_concat_of_matrices(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct linear_case *o = c->options;
  return neap_concat(b, (neap_tensor[]){x, neap_linear(b, x, o->outputs, false)}, 2, 1);
}

/* A part under another shape: its gradient goes back through the view. */
static inline neap_tensor apply_concat_of_view(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t dims[] = {c->dims[0], c->dims[1] * 2, c->dims[2] / 2, -1};
  const neap_tensor view = neap_reshape(b, x, 4, dims);
  return neap_concat(b, (neap_tensor[]){view, neap_relu(b, view), view}, 3, 1);
}

struct slice_case {
  int64_t first, count; /* channels */
};

static inline neap_tensor apply_slice(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct slice_case *o = c->options;
  return neap_slice(b, x, 1, o->first, o->count);
}

/* Both halves, swapped. */
static inline neap_tensor apply_swap(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t half = c->dims[1] / 2;
  return neap_concat(b, (neap_tensor[]){neap_slice(b, x, 1, half, half), neap_slice(b, x, 1, 0, half)}, 2, 1);
}

static inline neap_tensor apply_response_norm(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_response_norm_options *o = c->options;
  return neap_local_response_norm(b, x, *o);
}

#define APPLY(id)                                                                                            \
  static inline neap_tensor apply_##id(neap_builder *b, neap_tensor x, const struct op_case *c) {            \
    (void)c;                                                                                                 \
    return neap_##id(b, x);                                                                                  \
  }
APPLY(gelu)
APPLY(gelu_tanh)
APPLY(erf)
APPLY(silu)
APPLY(sigmoid)
APPLY(tanh)
APPLY(exp)
APPLY(glu)
APPLY(swiglu)
APPLY(geglu)

/* Of numbers above 0. */
static inline neap_tensor apply_log(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_log(b, neap_scale(b, neap_sigmoid(b, x), 2, 0.5f));
}
static inline neap_tensor apply_sqrt(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_sqrt(b, neap_scale(b, neap_multiply(b, x, x), 1, 0.25f));
}
static inline neap_tensor apply_square(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_power(b, x, 2);
}
static inline neap_tensor apply_power(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const float *o = c->options;
  return neap_power(b, neap_scale(b, neap_sigmoid(b, x), 1, 0.5f), *o);
}
static inline neap_tensor apply_clip(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_clip(b, x, -0.3f, 0.4f);
}
static inline neap_tensor apply_scale(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_scale(b, x, -1.5f, 0.25f);
}

/* Kept in 16 bits; some operators work on it as it is. */
static inline neap_tensor apply_storage(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_dtype *o = c->options;
  const neap_tensor kept = neap_cast(b, x, *o);
  return neap_cast(b, neap_multiply(b, neap_relu(b, kept), neap_sigmoid(b, kept)), NEAP_F32);
}

/* With a vector of the last axis, and with one of the channels. */
static inline neap_tensor apply_broadcast(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t last = c->dims[3] ? c->dims[3] : c->dims[1], channels[] = {c->dims[1], 1, 1};
  const neap_parameter_options normal = {NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32};
  const neap_tensor w = neap_parameter(b, "op.w", 1, &last, normal);
  x = neap_multiply(b, x, w);
  x = neap_subtract(b, x,
                    neap_parameter(b, "op.v", c->dims[3] ? 3 : 1, c->dims[3] ? channels : &last, normal));
  return neap_divide(b, x, neap_add(b, neap_exp(b, w), neap_multiply(b, x, x)));
}
/* A row and a column: both are broadcast. */
static inline neap_tensor apply_outer(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor rows = neap_mean(b, x, (int[]){1}, 1, true),
                    columns = neap_sum(b, x, (int[]){0}, 1, true);
  (void)c;
  return neap_add(b, x, neap_multiply(b, rows, columns));
}
/* Two convolutions with one kernel and one bias: their gradients add up, packed as the kernel is. */
static inline neap_tensor apply_shared_kernel(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  const int64_t dims[] = {o->filters, c->dims[1], o->size, o->size};
  const neap_tensor w = neap_parameter(b, "op.w", 4, dims,
                                       (neap_parameter_options){NEAP_INITIAL_HE, 0, false, NEAP_F32}),
                    v = neap_parameter(b, "op.v", 1, dims,
                                       (neap_parameter_options){NEAP_INITIAL_NORMAL, 1, false, NEAP_F32});
  return neap_add(b, neap_conv_with(b, x, w, v, *o), neap_conv_with(b, neap_tanh(b, x), w, v, *o));
}

static inline neap_tensor apply_masked(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor mask =
      neap_input(b, "op.mask", NEAP_U8, c->dims[2] ? 2 : 1, c->dims[2] ? c->dims + 2 : c->dims + 1);
  return neap_where(b, mask, neap_masked_fill(b, neap_tanh(b, x), mask, 0.5f), neap_scale(b, x, 3, 0));
}
static inline neap_tensor apply_masked_fill(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor mask = neap_input(b, "op.mask", NEAP_U8, 1, c->dims + 1);
  return neap_masked_fill(b, x, mask, -2);
}

struct reduce_case {
  int axes[2], count;
  bool mean; /* that keeps the axes; or a sum that does not */
};

static inline neap_tensor apply_reduce(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct reduce_case *o = c->options;
  return (o->mean ? neap_mean : neap_sum)(b, x, o->axes, o->count, o->mean);
}
static inline neap_tensor apply_expand(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t dims[] = {c->dims[0], c->dims[1], 3, c->dims[3]};
  return neap_expand(b, neap_sum(b, x, (int[]){2}, 1, true), 4, dims);
}
static inline neap_tensor apply_softmax(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int *o = c->options;
  return neap_softmax(b, x, *o);
}
static inline neap_tensor apply_transpose(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_transpose(b, x, (int[]){0, 3, 1, 2});
}
static inline neap_tensor apply_swap_matrix(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor t = neap_transpose(b, x, NULL);
  (void)c;
  return neap_transpose(b, neap_relu(b, t), NULL);
}
static inline neap_tensor apply_split(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int *o = c->options;
  neap_tensor parts[2];
  neap_split(b, x, *o, 2, parts);
  return neap_concat(b, (neap_tensor[]){parts[1], neap_tanh(b, parts[0]), parts[1]}, 3, *o);
}

static inline neap_tensor apply_layer_norm(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_layer_norm(b, x, 0);
}
static inline neap_tensor apply_rms_norm(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_rms_norm(b, x, 1e-3f);
}
static inline neap_tensor apply_group_norm(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t *o = c->options;
  return neap_group_norm(b, x, *o, 0);
}

/* Scores of attention over rows of pixels: x x^T / sqrt(K) by image and channel, softmax, times x. */
static inline neap_tensor apply_attention(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor scores = neap_matmul(b, x, x, false, true);
  return neap_matmul(b, neap_softmax(b, neap_scale(b, scores, 1 / __builtin_sqrtf((float)c->dims[3]), 0), -1),
                     x, false, false);
}
struct matmul_case {
  int64_t columns;
  bool transpose_a, transpose_b;
};

/* The four ways, with one matrix for the whole batch. */
static inline neap_tensor apply_matmul(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct matmul_case *o = c->options;
  const bool ta = o->transpose_a, tb = o->transpose_b;
  const int64_t k = c->dims[ta ? 2 : 3], n = o->columns, dims[] = {tb ? n : k, tb ? k : n};
  const neap_tensor w =
      neap_parameter(b, "op.w", 2, dims, (neap_parameter_options){NEAP_INITIAL_HE, 0, false, NEAP_F32});
  return neap_matmul(b, x, w, ta, tb);
}
/* A batch of matrices of which each serves several: [1, C, K, n]. */
static inline neap_tensor apply_matmul_broadcast(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct matmul_case *o = c->options;
  const int64_t dims[] = {c->dims[1], c->dims[3], o->columns};
  const neap_tensor w = neap_parameter(b, "op.w", 3, dims,
                                       (neap_parameter_options){NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32});
  return neap_matmul(b, x, w, false, false);
}
static inline neap_tensor apply_linear_last(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct linear_case *o = c->options;
  return neap_linear(b, x, o->outputs, o->bias);
}
/* One matrix there and back. */
static inline neap_tensor apply_tied(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct linear_case *o = c->options;
  const int64_t dims[] = {o->outputs, c->dims[1]};
  const neap_tensor w =
      neap_parameter(b, "op.w", 2, dims, (neap_parameter_options){NEAP_INITIAL_HE, 0, false, NEAP_F32});
  return neap_matmul(b, neap_tanh(b, neap_linear_with(b, x, w, -1)), w, false, false);
}
#define APPLY_LOSS(id)                                                                                       \
  static inline neap_tensor apply_##id(neap_builder *b, neap_tensor x, const struct op_case *c) {            \
    const neap_tensor loss = neap_##id(b, x, neap_sigmoid(b, neap_scale(b, x, -0.7f, 0.1f)));                \
    const int64_t one[] = {1, 1, 1, 1};                                                                      \
    return neap_multiply(b, x, neap_reshape(b, loss, c->dims[2] ? 4 : 2, one));                              \
  }
APPLY_LOSS(mse_loss)
APPLY_LOSS(l1_loss)
APPLY_LOSS(binary_cross_entropy)
static inline neap_tensor apply_smooth_l1(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor target = neap_input(b, "op.target", NEAP_F32, 2, c->dims);
  return neap_multiply(b, x, neap_reshape(b, neap_smooth_l1_loss(b, x, target, 0.5f), 2, (int64_t[]){1, 1}));
}
static inline neap_tensor apply_loss_of_part(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor ids = neap_input(b, "op.ids", NEAP_I32, 1, c->dims);
  const neap_tensor loss = neap_softmax_cross_entropy_ignoring(b, x, ids, 0.1f, 2);
  return neap_multiply(b, x, neap_reshape(b, loss, 2, (int64_t[]){1, 1}));
}

static inline neap_tensor apply_weighted_loss(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor ids = neap_input(b, "op.ids", NEAP_I32, 1, c->dims),
                    weights = neap_exp(b, neap_input(b, "op.weights", NEAP_F32, 1, &c->dims[1])),
                    loss = neap_softmax_cross_entropy_weighted(b, x, ids, weights, c->smoothing);
  return neap_multiply(b, x, neap_reshape(b, loss, 2, (int64_t[]){1, 1}));
}

static inline neap_tensor apply_mixed_loss(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor ids = neap_input(b, "op.ids", NEAP_I32, 1, c->dims),
                    others = neap_input(b, "op.ids.other", NEAP_I32, 1, c->dims),
                    shares = neap_sigmoid(b, neap_input(b, "op.shares", NEAP_F32, 1, c->dims)),
                    loss = neap_softmax_cross_entropy_mixed(b, x, ids, others, shares, c->smoothing);
  return neap_multiply(b, x, neap_reshape(b, loss, 2, (int64_t[]){1, 1}));
}

static inline neap_tensor apply_nothing(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)b, (void)c;
  return x;
}

static const struct op_case op_cases[] = {
    {"conv 1x1", apply_conv, .dims = {3, 16, 5, 4},
     .options = &(neap_conv_options){.filters = 32, .size = 1}},
    {"conv 1x1 stride 2", apply_conv, .dims = {2, 32, 6, 7},
     .options = &(neap_conv_options){.filters = 16, .size = 1, .stride = 2}},
    {"conv 3x3", apply_conv, .dims = {2, 16, 7, 5},
     .options = &(neap_conv_options){.filters = 16, .size = 3, .padding = 1}},
    {"conv 3x3 without padding", apply_conv, .dims = {2, 16, 5, 5},
     .options = &(neap_conv_options){.filters = 32, .size = 3}},
    {"conv 3x3 stride 2 bias", apply_conv, .dims = {2, 16, 7, 7},
     .options = &(neap_conv_options){.filters = 32, .size = 3, .stride = 2, .padding = 1, .bias = true}},
    {"conv 3x3 dilation 2", apply_conv, .dims = {2, 16, 7, 6},
     .options = &(neap_conv_options){.filters = 16, .size = 3, .padding = 2, .dilation = 2}},
    {"conv 3x3 64 to 64", apply_conv, .dims = {1, 64, 6, 5},
     .options = &(neap_conv_options){.filters = 64, .size = 3, .padding = 1}},
    {"conv 3x3 24 to 40 padding 2 bias", apply_conv, .dims = {2, 24, 5, 10},
     .options = &(neap_conv_options){.filters = 40, .size = 3, .padding = 2, .bias = true}},
    {"conv 3x3 of large maps", apply_conv, .dims = {2, 16, 13, 18},
     .options = &(neap_conv_options){.filters = 32, .size = 3, .padding = 1, .bias = true}},
    {"conv 3x3 of large maps without padding", apply_conv, .dims = {2, 32, 11, 14},
     .options = &(neap_conv_options){.filters = 16, .size = 3}},
    {"conv 7x7 stride 2 of 3 channels", apply_conv, .dims = {2, 3, 13, 11},
     .options = &(neap_conv_options){.filters = 16, .size = 7, .stride = 2, .padding = 3}},
    {"conv 5x5 of 1 channel", apply_conv, .dims = {2, 1, 9, 9},
     .options = &(neap_conv_options){.filters = 6, .size = 5, .bias = true}},
    {"conv odd channels", apply_conv, .dims = {2, 5, 6, 6},
     .options = &(neap_conv_options){.filters = 7, .size = 3, .padding = 1, .bias = true}},
    {"conv 4 groups", apply_conv, .dims = {2, 16, 5, 5},
     .options = &(neap_conv_options){.filters = 32, .size = 3, .padding = 1, .groups = 4}},
    {"conv 2 groups stride 2 bias", apply_conv, .dims = {2, 6, 7, 7},
     .options =
         &(neap_conv_options){.filters = 4, .size = 3, .stride = 2, .padding = 1, .groups = 2, .bias = true}},
    {"conv depthwise", apply_conv, .dims = {2, 16, 6, 5},
     .options = &(neap_conv_options){.filters = 16, .size = 3, .padding = 1, .groups = 16}},
    {"conv depthwise stride 2", apply_conv, .dims = {2, 12, 7, 6},
     .options = &(
         neap_conv_options){.filters = 24, .size = 3, .stride = 2, .padding = 1, .groups = 12, .bias = true}},
    {"conv depthwise 5x5", apply_conv, .dims = {2, 24, 9, 8},
     .options = &(neap_conv_options){.filters = 24, .size = 5, .padding = 2, .groups = 24}},
    {"conv 8 channels a group", apply_conv, .dims = {2, 32, 6, 5},
     .options = &(neap_conv_options){.filters = 32, .size = 3, .padding = 1, .groups = 4}},
    {"conv 1x7", apply_conv, .dims = {2, 16, 6, 9},
     .options =
         &(neap_conv_options){.filters = 32, .kernel_height = 1, .kernel_width = 7, .padding_width = 3}},
    {"conv 7x1 bias", apply_conv, .dims = {2, 16, 9, 6},
     .options = &(
         neap_conv_options){.filters = 16, .size = 7, .kernel_width = 1, .padding_height = 3, .bias = true}},
    {"conv 3x1 stride 2 odd channels", apply_conv, .dims = {2, 5, 7, 8},
     .options =
         &(neap_conv_options){
             .filters = 6, .kernel_height = 3, .kernel_width = 1, .padding_height = 1, .stride = 2}},
    {"conv 2x5 padding 1 and 4", apply_conv, .dims = {1, 16, 5, 6},
     .options =
         &(neap_conv_options){.filters = 16, .size = 2, .kernel_width = 5, .padding = 1, .padding_width = 4}},
    {"conv of one pixel", apply_conv, .dims = {3, 16, 1, 1},
     .options = &(neap_conv_options){.filters = 16, .size = 1}},
    {"conv addend", apply_conv_add, .dims = {2, 16, 5, 5},
     .options = &(neap_conv_options){.filters = 16, .size = 3, .padding = 1}},
    {"conv addend 64", apply_conv_add, .dims = {1, 64, 4, 4},
     .options = &(neap_conv_options){.filters = 64, .size = 3, .padding = 1}},
    {"conv addend bias", apply_conv_add, .dims = {2, 16, 5, 5},
     .options = &(neap_conv_options){.filters = 16, .size = 3, .padding = 1, .bias = true}},
    {"conv addend odd channels", apply_conv_add, .dims = {2, 5, 4, 5},
     .options = &(neap_conv_options){.filters = 5, .size = 3, .padding = 1, .bias = true}},
    {"conv and a broadcast sum", apply_conv_broadcast, .dims = {2, 16, 5, 5},
     .options = &(neap_conv_options){.filters = 32, .size = 3}},
    {"batch norm", apply_batch_norm, .dims = {3, 16, 5, 4}},
    {"batch norm odd channels", apply_batch_norm, .dims = {2, 5, 3, 7}},
    {"batch norm of a matrix", apply_batch_norm, .dims = {6, 9}},
    {"batch norm relu", apply_batch_norm_relu, .dims = {3, 32, 5, 4}},
    {"batch norm relu odd channels", apply_batch_norm_relu, .dims = {2, 19, 3, 7}},
    {"batch norm relu6", apply_batch_norm_relu6, .dims = {2, 16, 9, 8}, .options = &(float){0.98f}},
    {"batch norm relu6 odd channels", apply_batch_norm_relu6, .dims = {3, 7, 9, 8},
     .options = &(float){0.98f}},
    {"batch norm addend", apply_batch_norm_add, .dims = {3, 16, 5, 4}},
    {"batch norm addend odd channels", apply_batch_norm_add, .dims = {2, 5, 3, 7}},
    {"batch norm addend relu", apply_batch_norm_add_relu, .dims = {3, 32, 5, 4}},
    {"batch norm addend relu odd channels", apply_batch_norm_add_relu, .dims = {2, 19, 3, 7}},
    {"batch norm addend relu of a matrix", apply_batch_norm_add_relu, .dims = {6, 9}},
    {"batch norm addend relu6", apply_batch_norm_add_relu6, .dims = {2, 16, 9, 8},
     .options = &(float){0.98f}},
    {"batch norm of its addend", apply_batch_norm_self, .dims = {3, 16, 5, 4}},
    {"conv 1x1 beside another", apply_conv_beside, .dims = {2, 32, 6, 5},
     .options = &(neap_conv_options){.filters = 32, .size = 1}},
    {"conv 1x1 beside another bias odd channels", apply_conv_beside, .dims = {3, 7, 4, 5},
     .options = &(neap_conv_options){.filters = 7, .size = 1, .bias = true}},
    {"conv 3x3 beside another", apply_conv_beside, .dims = {2, 16, 5, 6},
     .options = &(neap_conv_options){.filters = 16, .size = 3, .padding = 1}},
    {"conv 1x1 with groups beside another", apply_conv_beside, .dims = {2, 16, 5, 6},
     .options = &(neap_conv_options){.filters = 16, .size = 1, .groups = 2}},
    {"conv 1x1 dilation 2 beside another", apply_conv_beside, .dims = {2, 16, 5, 6},
     .options = &(neap_conv_options){.filters = 16, .size = 1, .dilation = 2}},
    {"conv 1x1 of a view", apply_conv_of_view, .dims = {2, 16, 4, 6},
     .options = &(neap_conv_options){.filters = 32, .size = 1}},
    {"conv 1x1 of its addend", apply_conv_of_addend, .dims = {2, 16, 5, 6},
     .options = &(neap_conv_options){.filters = 16, .size = 1}},
    {"conv 1x1 beside its input", apply_conv_beside_itself, .dims = {2, 16, 5, 6},
     .options = &(neap_conv_options){.filters = 16, .size = 1}},
    {"batch norm that is read twice", apply_batch_norm_read_twice, .dims = {3, 16, 5, 4}},
    {"batch norm twice in a sum before a pool", apply_batch_norm_twice, .dims = {2, 16, 6, 8},
     .options = &(neap_pool_options){.size = 2}},
    {"residual", apply_residual, .dims = {2, 16, 5, 6},
     .options = &(neap_conv_options){.filters = 16, .size = 3, .padding = 1}},
    {"residual odd channels", apply_residual, .dims = {2, 10, 5, 6},
     .options = &(neap_conv_options){.filters = 10, .size = 3, .padding = 1, .bias = true}},
    {"relu", apply_relu, .dims = {2, 16, 5, 7}},
    {"relu odd channels", apply_relu, .dims = {2, 3, 5, 7}},
    {"relu of a matrix", apply_relu, .dims = {5, 13}},
    {"add", apply_add, .dims = {2, 16, 5, 7}},
    {"add odd channels", apply_add, .dims = {2, 3, 5, 7}},
    {"add to itself", apply_double, .dims = {2, 16, 5, 3}},
    {"max pool 2x2", apply_max_pool, .dims = {2, 16, 6, 8}, .options = &(neap_pool_options){.size = 2}},
    {"max pool 3x3 stride 2 padding 1", apply_max_pool, .dims = {2, 16, 7, 8},
     .options = &(neap_pool_options){.size = 3, .stride = 2, .padding = 1}},
    {"max pool 3x3 stride 1 odd channels", apply_max_pool, .dims = {2, 5, 6, 5},
     .options = &(neap_pool_options){.size = 3, .stride = 1, .padding = 1}},
    {"max pool that leaves a rest", apply_max_pool, .dims = {1, 6, 7, 5},
     .options = &(neap_pool_options){.size = 2}},
    {"average pool 2x2", apply_average_pool, .dims = {2, 16, 6, 8},
     .options = &(neap_pool_options){.size = 2}},
    {"average pool 3x3 stride 2 padding 1", apply_average_pool, .dims = {2, 16, 7, 8},
     .options = &(neap_pool_options){.size = 3, .stride = 2, .padding = 1}},
    {"average pool 3x3 stride 1 odd channels", apply_average_pool, .dims = {2, 5, 6, 5},
     .options = &(neap_pool_options){.size = 3, .stride = 1, .padding = 1}},
    {"max pool 3x3 stride 2 ceil", apply_max_pool, .dims = {2, 16, 8, 7},
     .options = &(neap_pool_options){.size = 3, .stride = 2, .ceil = true}},
    {"max pool 2x2 ceil padding 1", apply_max_pool, .dims = {2, 5, 6, 7},
     .options = &(neap_pool_options){.size = 2, .padding = 1, .ceil = true}},
    {"average pool 3x3 stride 1 of padding", apply_average_pool, .dims = {2, 16, 5, 6},
     .options = &(neap_pool_options){.size = 3, .stride = 1, .padding = 1, .count_padding = true}},
    {"average pool 3x3 stride 2 ceil", apply_average_pool, .dims = {2, 6, 8, 7},
     .options = &(neap_pool_options){.size = 3, .stride = 2, .ceil = true}},
    {"average pool 5x5 stride 3 ceil of padding", apply_average_pool, .dims = {2, 16, 9, 8},
     .options =
         &(neap_pool_options){.size = 5, .stride = 3, .padding = 2, .ceil = true, .count_padding = true}},
    {"average pool of all pixels", apply_average_pool, .dims = {2, 16, 4, 4},
     .options = &(neap_pool_options){.size = 4}},
    {"global average pool", apply_global_average_pool, .dims = {3, 32, 5, 4}},
    {"global average pool odd channels", apply_global_average_pool, .dims = {3, 7, 3, 3}},
    {"linear", apply_linear, .dims = {5, 16}, .options = &(struct linear_case){.outputs = 32}},
    {"linear bias odd sizes", apply_linear, .dims = {3, 13},
     .options = &(struct linear_case){.outputs = 11, .bias = true}},
    {"linear one row", apply_linear, .dims = {1, 64},
     .options = &(struct linear_case){.outputs = 10, .bias = true}},
    {"dropout", apply_dropout, .dims = {2, 16, 5, 6}, .options = &(float){0.3f}},
    {"dropout odd channels", apply_dropout, .dims = {2, 3, 5, 7}, .options = &(float){0.5f}},
    {"dropout of a matrix", apply_dropout, .dims = {7, 19}, .options = &(float){0.7f}},
    {"dropout of nothing", apply_dropout, .dims = {2, 16, 3, 3}, .options = &(float){0}},
    {"reshape", apply_reshape, .dims = {2, 16, 4, 6},
     .options = &(neap_conv_options){.filters = 16, .size = 3, .padding = 1}},
    {"reshape odd channels", apply_reshape, .dims = {2, 3, 4, 5},
     .options = &(neap_conv_options){.filters = 4, .size = 2}},
    {"views", apply_views, .dims = {3, 16, 4, 3}},
    {"views odd channels", apply_views, .dims = {3, 5, 4, 3}},
    {"dropout twice", apply_dropout_twice, .dims = {2, 16, 5, 6}, .options = &(float){0.4f}},
    {"relu6", apply_relu6, .dims = {2, 16, 5, 7}},
    {"relu6 odd channels", apply_relu6, .dims = {2, 3, 5, 7}},
    {"concat", apply_concat, .dims = {2, 16, 5, 4},
     .options = &(neap_conv_options){.filters = 32, .size = 1}},
    {"concat of one image", apply_concat, .dims = {1, 32, 3, 3},
     .options = &(neap_conv_options){.filters = 16, .size = 1}},
    {"concat odd channels", apply_concat, .dims = {3, 5, 4, 3},
     .options = &(neap_conv_options){.filters = 8, .size = 1}},
    {"concat of one pixel", apply_concat, .dims = {3, 16, 1, 1},
     .options = &(neap_conv_options){.filters = 48, .size = 1}},
    {"concat of matrices", apply_concat_of_matrices, .dims = {4, 7},
     .options = &(struct linear_case){.outputs = 9}},
    {"concat of a view", apply_concat_of_view, .dims = {2, 8, 4, 3}},
    {"slice", apply_slice, .dims = {2, 48, 5, 4}, .options = &(struct slice_case){.first = 16, .count = 16}},
    {"slice across blocks", apply_slice, .dims = {2, 32, 5, 4},
     .options = &(struct slice_case){.first = 10, .count = 20}},
    {"slice of the first channel", apply_slice, .dims = {3, 7, 2, 3},
     .options = &(struct slice_case){.first = 0, .count = 1}},
    {"slice of a matrix", apply_slice, .dims = {5, 13},
     .options = &(struct slice_case){.first = 4, .count = 9}},
    {"swapped halves", apply_swap, .dims = {2, 32, 3, 5}},
    {"response norm", apply_response_norm, .dims = {2, 16, 5, 7},
     .options = &(neap_response_norm_options){.alpha = 0.5f}},
    {"response norm of 4", apply_response_norm, .dims = {2, 32, 3, 3},
     .options = &(neap_response_norm_options){.size = 4, .alpha = 2, .beta = 0.6f, .k = 2}},
    {"response norm odd channels", apply_response_norm, .dims = {3, 3, 5, 4},
     .options = &(neap_response_norm_options){.size = 7, .alpha = 1, .beta = 1, .k = 0.5f}},
    {"cross-entropy", apply_nothing, .dims = {6, 8}, .scope = "head"},
    {"cross-entropy smoothing", apply_nothing, .dims = {6, 8}, .smoothing = 0.1f, .scope = "head"},
    {"cross-entropy by pixel", apply_nothing, .dims = {2, 16, 4, 5}, .dense = true, .scope = "head"},
    {"cross-entropy by pixel, smoothing", apply_nothing, .dims = {3, 4, 5, 3}, .smoothing = 0.1f,
     .dense = true, .scope = "head"},
    {"relu and max pool", apply_relu_pool, .dims = {2, 16, 6, 8}, .options = &(neap_pool_options){.size = 2}},
    {"relu and max pool, odd channels", apply_relu_pool, .dims = {1, 5, 7, 5},
     .options = &(neap_pool_options){.size = 2, .stride = 1}},
    {"relu and max pool, many elements", apply_relu_pool, .dims = {2, 48, 10, 9},
     .options = &(neap_pool_options){.size = 3}},
    {"relu and dropout of a matrix", apply_relu_dropout, .dims = {5, 13}, .options = &(float){0.3f}},
    {"conv transposed 2x2 stride 2", apply_conv_transposed, .dims = {2, 32, 4, 3},
     .options = &(neap_conv_transposed_options){.filters = 16, .size = 2, .stride = 2, .bias = true}},
    {"conv transposed 2x2 stride 2 odd channels", apply_conv_transposed, .dims = {2, 6, 3, 4},
     .options = &(neap_conv_transposed_options){.filters = 5, .size = 2, .stride = 2}},
    {"conv transposed 3x3 stride 2 output padding", apply_conv_transposed, .dims = {2, 16, 4, 5},
     .options =
         &(neap_conv_transposed_options){
             .filters = 16, .size = 3, .stride = 2, .padding = 1, .output_padding = 1, .bias = true}},
    {"conv transposed 4x4 stride 2 padding 1", apply_conv_transposed, .dims = {1, 16, 3, 4},
     .options = &(neap_conv_transposed_options){.filters = 32, .size = 4, .stride = 2, .padding = 1}},
    {"conv transposed 3x3 stride 3 padding 2 output padding 2", apply_conv_transposed, .dims = {2, 3, 3, 4},
     .options =
         &(neap_conv_transposed_options){
             .filters = 7, .size = 3, .stride = 3, .padding = 2, .output_padding = 2, .bias = true}},
    {"conv transposed 3x3", apply_conv_transposed, .dims = {2, 16, 5, 4},
     .options = &(neap_conv_transposed_options){.filters = 16, .size = 3, .bias = true}},
    {"conv transposed of one pixel", apply_conv_transposed, .dims = {3, 16, 1, 1},
     .options = &(neap_conv_transposed_options){.filters = 16, .size = 2, .stride = 2}},
    {"crop", apply_crop, .dims = {2, 16, 7, 8},
     .options = &(neap_crop_options){.top = 1, .left = 3, .height = 4, .width = 5}},
    {"crop of a corner, odd channels", apply_crop, .dims = {2, 5, 6, 5},
     .options = &(neap_crop_options){.top = 0, .left = 4, .height = 3, .width = 1}},
    {"crop and pool", apply_crop_and_pool, .dims = {2, 16, 7, 6},
     .options = &(struct crop_and_pool){.pool = {.size = 2},
                                        .crop = {.top = 2, .left = 1, .height = 3, .width = 3}}},
    {"crop and pool, odd channels", apply_crop_and_pool, .dims = {2, 5, 4, 8},
     .options = &(struct crop_and_pool){.pool = {.size = 2},
                                        .crop = {.top = 2, .left = 0, .height = 2, .width = 4}}},
    {"crop of everything", apply_crop, .dims = {2, 16, 4, 3},
     .options = &(neap_crop_options){.height = 4, .width = 3}},
    {"resize up", apply_resize, .dims = {2, 16, 3, 4},
     .options = &(struct resize_case){.height = 7, .width = 9}},
    {"resize up, corners aligned", apply_resize, .dims = {2, 16, 3, 4},
     .options = &(struct resize_case){.height = 7, .width = 9, .corners = true}},
    {"resize down", apply_resize, .dims = {2, 16, 7, 9},
     .options = &(struct resize_case){.height = 4, .width = 2}},
    {"resize down, corners aligned", apply_resize, .dims = {1, 16, 7, 9},
     .options = &(struct resize_case){.height = 4, .width = 1, .corners = true}},
    {"resize up and down, odd channels", apply_resize, .dims = {2, 5, 3, 8},
     .options = &(struct resize_case){.height = 11, .width = 3}},
    {"resize one pixel", apply_resize, .dims = {2, 3, 1, 1},
     .options = &(struct resize_case){.height = 3, .width = 4, .corners = true}},
    {"resize to the same size", apply_resize, .dims = {2, 16, 4, 3},
     .options = &(struct resize_case){.height = 4, .width = 3}},
    {"adaptive average pool to 3", apply_adaptive_pool, .dims = {2, 16, 6, 9}, .options = &(int64_t){3}},
    {"adaptive average pool to 3, overlapping", apply_adaptive_pool, .dims = {2, 16, 7, 8},
     .options = &(int64_t){3}},
    {"adaptive average pool to 6 of 7, odd channels", apply_adaptive_pool, .dims = {2, 5, 7, 6},
     .options = &(int64_t){6}},
    {"gelu", apply_gelu, .dims = {2, 16, 5, 7}},
    {"gelu odd channels", apply_gelu, .dims = {2, 3, 5, 7}},
    {"erf", apply_erf, .dims = {2, 16, 5, 7}},
    {"erf odd channels", apply_erf, .dims = {2, 3, 5, 7}},
    {"gelu tanh", apply_gelu_tanh, .dims = {2, 16, 5, 7}},
    {"silu of a matrix", apply_silu, .dims = {5, 13}},
    {"sigmoid", apply_sigmoid, .dims = {2, 16, 5, 7}},
    {"tanh", apply_tanh, .dims = {2, 5, 3, 7}},
    {"exp", apply_exp, .dims = {2, 16, 3, 3}},
    {"log", apply_log, .dims = {2, 16, 3, 3}},
    {"sqrt", apply_sqrt, .dims = {5, 13}},
    {"sigmoid odd channels", apply_sigmoid, .dims = {2, 5, 3, 7}},
    {"exp odd channels", apply_exp, .dims = {2, 5, 3, 7}},
    {"log odd channels", apply_log, .dims = {2, 5, 3, 7}},
    {"sqrt odd channels", apply_sqrt, .dims = {2, 5, 3, 7}},
    {"scale odd channels", apply_scale, .dims = {2, 5, 3, 7}},
    {"broadcast odd channels", apply_broadcast, .dims = {2, 5, 3, 7}},
    {"power 2", apply_square, .dims = {5, 13}},
    {"power 1.7", apply_power, .dims = {2, 16, 3, 3}, .options = &(float){1.7f}},
    {"power -0.5", apply_power, .dims = {5, 13}, .options = &(float){-0.5f}},
    {"clip", apply_clip, .dims = {2, 16, 5, 7}},
    {"scale", apply_scale, .dims = {2, 3, 5, 7}},
    {"bf16", apply_storage, .dims = {2, 16, 5, 4}, .options = &(neap_dtype){NEAP_BF16}, .rounds = true},
    {"f16", apply_storage, .dims = {2, 16, 5, 4}, .options = &(neap_dtype){NEAP_F16}, .rounds = true},
    {"bf16 odd channels", apply_storage, .dims = {2, 5, 9, 7}, .options = &(neap_dtype){NEAP_BF16},
     .rounds = true},
    {"f16 of a matrix", apply_storage, .dims = {5, 13}, .options = &(neap_dtype){NEAP_F16}, .rounds = true},
    {"broadcast", apply_broadcast, .dims = {2, 16, 5, 4}},
    {"broadcast of a matrix", apply_broadcast, .dims = {6, 9}},
    {"outer product", apply_outer, .dims = {6, 9}},
    {"two convolutions with one kernel", apply_shared_kernel, .dims = {2, 16, 5, 4},
     .options = &(neap_conv_options){.filters = 16, .size = 3, .padding = 1}},
    {"where", apply_masked, .dims = {2, 16, 5, 4}},
    {"where of a matrix", apply_masked, .dims = {6, 9}},
    {"masked fill", apply_masked_fill, .dims = {6, 9}},
    {"sum over channels", apply_reduce, .dims = {2, 16, 5, 4},
     .options = &(struct reduce_case){.axes = {1}, .count = 1}},
    {"sum over rows and columns", apply_reduce, .dims = {2, 5, 3, 4},
     .options = &(struct reduce_case){.axes = {2, 3}, .count = 2}},
    {"mean over columns", apply_reduce, .dims = {2, 16, 5, 4},
     .options = &(struct reduce_case){.axes = {-1}, .count = 1, .mean = true}},
    {"mean over channels and columns", apply_reduce, .dims = {3, 5, 4, 6},
     .options = &(struct reduce_case){.axes = {1, 3}, .count = 2, .mean = true}},
    {"expand", apply_expand, .dims = {2, 16, 5, 4}},
    {"softmax", apply_softmax, .dims = {6, 13}, .options = &(int){1}},
    {"softmax over channels", apply_softmax, .dims = {2, 16, 3, 5}, .options = &(int){1}},
    {"softmax over columns", apply_softmax, .dims = {2, 3, 4, 9}, .options = &(int){-1}},
    {"transpose", apply_transpose, .dims = {2, 16, 5, 4}},
    {"transpose of a matrix", apply_swap_matrix, .dims = {6, 9}},
    {"split along rows", apply_split, .dims = {2, 16, 6, 4}, .options = &(int){2}},
    {"split along columns", apply_split, .dims = {2, 5, 3, 4}, .options = &(int){3}},
    {"layer norm", apply_layer_norm, .dims = {6, 32}},
    {"layer norm of images", apply_layer_norm, .dims = {2, 16, 3, 21}},
    {"rms norm", apply_rms_norm, .dims = {6, 19}},
    {"group norm", apply_group_norm, .dims = {2, 16, 5, 4}, .options = &(int64_t){4}},
    {"group norm of one group", apply_group_norm, .dims = {2, 6, 3, 3}, .options = &(int64_t){1}},
    {"group norm of a matrix", apply_group_norm, .dims = {5, 12}, .options = &(int64_t){3}},
    {"attention", apply_attention, .dims = {2, 3, 5, 8}},
    {"packed attention", apply_streamed_attention, .dims = {2, 9, 6, 8},
     .options = &(neap_attention_options){.key_heads = 1}},
    {"packed attention, causal", apply_streamed_attention, .dims = {2, 17, 3, 5},
     .options = &(neap_attention_options){.key_heads = 1, .causal = true}},
    {"packed attention, causal, window, dropout", apply_streamed_attention, .dims = {2, 19, 8, 4},
     .options = &(neap_attention_options){.window = 5, .key_heads = 2, .causal = true, .dropout = 0.3f}},
    {"packed attention, causal, cap", apply_streamed_attention, .dims = {2, 17, 6, 5},
     .options = &(neap_attention_options){.key_heads = 2, .causal = true, .cap = 0.5f}},
    {"attention apart, cap, dropout", apply_attention_apart, .dims = {3, 10, 3, 7},
     .options = &(neap_attention_options){.key_heads = 1, .dropout = 0.4f, .cap = 2}},
    {"packed attention, window", apply_streamed_attention, .dims = {3, 11, 9, 3},
     .options = &(neap_attention_options){.window = 3}},
    {"attention apart", apply_attention_apart, .dims = {2, 13, 4, 6},
     .options = &(neap_attention_options){.key_heads = 2}},
    {"attention apart, causal, dropout", apply_attention_apart, .dims = {3, 10, 3, 7},
     .options = &(neap_attention_options){.key_heads = 1, .causal = true, .dropout = 0.4f}},
    {"rotary", apply_rotary, .dims = {2, 7, 3, 8},
     .options = &(struct rotary_case){.heads = 2, .position = 5}},
    {"rotary of all heads", apply_rotary, .dims = {2, 5, 4, 6}, .options = &(struct rotary_case){0}},
    {"positions", apply_positions, .dims = {7, 12}, .options = &(int64_t){2}},
    {"positions of one angle", apply_positions, .dims = {9, 2}, .options = &(int64_t){-3}},
    {"sequence mask", apply_sequence_mask, .dims = {4, 5, 3, 7}},
    {"sequence mask of a matrix", apply_sequence_mask, .dims = {6, 9}},
    {"rotary at a place", apply_rotary_at, .dims = {2, 3, 4, 6},
     .options = &(struct rotary_case){.heads = 3}},
    {"store", apply_store, .dims = {2, 3, 4, 6}, .options = &(struct store_case){0}},
    {"store from the first row on", apply_store, .dims = {3, 2, 1, 5},
     .options = &(struct store_case){.from_first_row = true}},
    {"matmul", apply_matmul, .dims = {2, 3, 5, 8}, .options = &(struct matmul_case){.columns = 6}},
    {"matmul, a transposed", apply_matmul, .dims = {2, 3, 5, 8},
     .options = &(struct matmul_case){.columns = 6, .transpose_a = true}},
    {"matmul, b transposed", apply_matmul, .dims = {2, 3, 5, 8},
     .options = &(struct matmul_case){.columns = 7, .transpose_b = true}},
    {"matmul, both transposed", apply_matmul, .dims = {2, 3, 5, 8},
     .options = &(struct matmul_case){.columns = 6, .transpose_a = true, .transpose_b = true}},
    {"matmul, broadcast batch", apply_matmul_broadcast, .dims = {2, 3, 5, 8},
     .options = &(struct matmul_case){.columns = 6}},
    {"linear of the last axis", apply_linear_last, .dims = {2, 3, 5, 8},
     .options = &(struct linear_case){.outputs = 6, .bias = true}},
    {"tied weights", apply_tied, .dims = {6, 13}, .options = &(struct linear_case){.outputs = 5}},
    {"embedding", apply_embedding, .dims = {9, 8}},
    {"lightweight convolution", apply_sequence_conv, .dims = {2, 5, 3, 36},
     .options = &(struct sequence_conv_case){.taps = 5, .heads = 2, .padding = 4}},
    {"lightweight convolution, middle", apply_sequence_conv, .dims = {3, 9, 5, 20},
     .options = &(struct sequence_conv_case){.taps = 9, .heads = 1, .padding = 4}},
    {"lightweight convolution, narrow heads", apply_sequence_conv, .dims = {2, 3, 3, 6},
     .options = &(struct sequence_conv_case){.taps = 3, .heads = 3, .padding = 0}},
    {"lightweight convolution longer than the sequence", apply_sequence_conv, .dims = {2, 1, 5, 32},
     .options = &(struct sequence_conv_case){.taps = 12, .heads = 2, .padding = 7}},
    {"lightweight convolution, given kernels", apply_sequence_conv, .dims = {2, 5, 3, 36},
     .options = &(struct sequence_conv_case){.taps = 5, .heads = 2, .padding = 2, .given = true}},
    {"dynamic convolution", apply_sequence_conv, .dims = {2, 5, 3, 36},
     .options = &(struct sequence_conv_case){.taps = 4, .heads = 2, .padding = 3, .dynamic = true}},
    {"dynamic convolution, middle", apply_sequence_conv, .dims = {1, 8, 5, 20},
     .options = &(struct sequence_conv_case){.taps = 11, .heads = 1, .padding = 5, .dynamic = true}},
    {"dynamic convolution, narrow heads", apply_sequence_conv, .dims = {2, 3, 3, 6},
     .options = &(struct sequence_conv_case){.taps = 3, .heads = 3, .padding = 1, .dynamic = true}},
    {"dynamic convolution longer than the sequence", apply_sequence_conv, .dims = {2, 1, 5, 32},
     .options = &(struct sequence_conv_case){.taps = 12, .heads = 2, .padding = 11, .dynamic = true}},
    {"lightweight convolution, later times", apply_sequence_conv, .dims = {2, 5, 3, 36},
     .options = &(struct sequence_conv_case){.taps = 5, .heads = 2, .padding = 4, .first = 9}},
    {"dynamic convolution, the last time", apply_sequence_conv, .dims = {2, 5, 3, 36},
     .options =
         &(struct sequence_conv_case){.taps = 4, .heads = 2, .padding = 3, .dynamic = true, .first = 14}},
    {"glu", apply_glu, .dims = {2, 16, 5, 6}},
    {"glu of a matrix", apply_glu, .dims = {5, 34}},
    {"swiglu", apply_swiglu, .dims = {2, 5, 3, 14}},
    {"geglu", apply_geglu, .dims = {2, 5, 3, 14}},
    {"tied embedding", apply_tied_embedding, .dims = {9, 8}},
    {"mean squared error", apply_mse_loss, .dims = {6, 9}},
    {"mean absolute error", apply_l1_loss, .dims = {2, 16, 3, 4}},
    {"smooth l1", apply_smooth_l1, .dims = {6, 9}},
    {"cross-entropy with class weights", apply_weighted_loss, .dims = {6, 9}},
    {"cross-entropy with class weights, smoothed", apply_weighted_loss, .dims = {40, 33}, .smoothing = 0.2f},
    {"cross-entropy of two labels", apply_mixed_loss, .dims = {7, 9}},
    {"cross-entropy of two labels, smoothed", apply_mixed_loss, .dims = {40, 33}, .smoothing = 0.2f},
    {"binary cross-entropy", apply_binary_cross_entropy, .dims = {6, 9}},
    {"cross-entropy that ignores a class", apply_loss_of_part, .dims = {12, 4}},
    {"linear cross-entropy", apply_linear_loss, .dims = {13, 9},
     .options = &(struct linear_loss_case){.classes = 6}},
    {"linear cross-entropy with bias, smoothed", apply_linear_loss, .dims = {12, 16},
     .options = &(struct linear_loss_case){.classes = 4, .bias = true, .smoothing = 0.1f}},
    {"lstm", apply_recurrent, .dims = {12, 5}, .options = &(struct recurrent_case){.times = 4, .width = 16}},
    {"lstm odd width", apply_recurrent, .dims = {15, 6},
     .options = &(struct recurrent_case){.times = 5, .width = 7}},
    {"lstm of one time", apply_recurrent, .dims = {4, 6},
     .options = &(struct recurrent_case){.times = 1, .width = 5}},
    {"lstm in parts", apply_recurrent_parts, .dims = {18, 5},
     .options = &(struct recurrent_case){.times = 6, .first_part = 2, .width = 9}},
    {"lstm in parts with states", apply_recurrent_parts, .dims = {12, 5},
     .options = &(struct recurrent_case){.times = 4, .first_part = 1, .width = 9, .states = true}},
    {"gru", apply_recurrent, .dims = {12, 5},
     .options = &(struct recurrent_case){.times = 4, .width = 16, .gru = true}},
    {"gru odd width", apply_recurrent, .dims = {15, 6},
     .options = &(struct recurrent_case){.times = 5, .width = 7, .gru = true}},
    {"gru of one time", apply_recurrent, .dims = {4, 6},
     .options = &(struct recurrent_case){.times = 1, .width = 5, .gru = true}},
    {"gru in parts", apply_recurrent_parts, .dims = {18, 5},
     .options = &(struct recurrent_case){.times = 6, .first_part = 2, .width = 9, .gru = true}},
    {"gru in parts with states", apply_recurrent_parts, .dims = {12, 5},
     .options =
         &(struct recurrent_case){.times = 4, .first_part = 1, .width = 9, .gru = true, .states = true}},
    {"dequantise", apply_frozen, .dims = {6, 64}, .options = &(struct linear_case){.outputs = 96},
     .store = "op.*weight=q8_0,op.w=q8_0"},
    {"dequantise 4 bits", apply_frozen, .dims = {6, 64}, .options = &(struct linear_case){.outputs = 96},
     .store = "op.*weight=q4_0,op.w=q4_1"},
    {"dequantise 5 bits", apply_frozen, .dims = {6, 64}, .options = &(struct linear_case){.outputs = 96},
     .store = "op.*weight=q5_0,op.w=q5_1"},
    {"dequantise nf4", apply_frozen, .dims = {6, 64}, .options = &(struct linear_case){.outputs = 96},
     .store = "op.*=nf4,!op.*bias"},
    {"dequantise i8", apply_frozen, .dims = {6, 128}, .options = &(struct linear_case){.outputs = 192},
     .store = "op.*=i8,!op.*bias"},
    {"dequantise kernels", apply_frozen_conv, .dims = {2, 32, 5, 4},
     .options = &(neap_conv_options){.filters = 21, .size = 3, .padding = 1}, .scope = "op.conv1.weight",
     .store = "op.*=q8_0"},
    {"adaptive average pool to 1", apply_adaptive_pool, .dims = {3, 80, 5, 4}, .options = &(int64_t){1}},
};

enum { OP_CASES = sizeof op_cases / sizeof *op_cases };

/* The forward graph of a case, fused or as built. */
static inline struct neap_graph *op_case_graph(const struct op_case *c, bool fuse) {
  neap_builder *b = neap_builder_create(c->name);
  const bool image = c->dims[2] > 0;
  const int64_t dims[] = {c->dims[0], image ? 3 : 7, c->dims[2], c->dims[3]};
  neap_tensor x = neap_input(b, "image", NEAP_F32, image ? 4 : 2, dims),
              labels = c->dense ? neap_input(b, "label", NEAP_I32, 3, (int64_t[]){dims[0], dims[2], dims[3]})
                                : neap_input(b, "label", NEAP_I32, 1, dims);
  neap_scope(b, "stem");
  x = image ? neap_conv(b, x, (neap_conv_options){.filters = c->dims[1], .size = 1, .bias = true})
            : neap_linear(b, x, c->dims[1], true);
  neap_scope(b, "op");
  x = c->apply(b, x, c);
  neap_scope(b, "head");
  x = c->dense ? neap_conv(b, x, (neap_conv_options){.filters = OP_CASE_CLASSES, .size = 1, .bias = true})
               : neap_linear(b, neap_flatten(b, x), OP_CASE_CLASSES, true);
  const neap_tensor loss = neap_softmax_cross_entropy(b, x, labels, c->smoothing);
  struct neap_graph *graph = NULL, *fused = NULL;
  const neap_status status = neap_builder_finish(b, loss, &graph);
  neap_builder_free(b);
  assert_ok(status);
  if (!fuse) return graph;
  assert_ok(rewrite_fuse(graph, &fused));
  neap_graph_free(graph);
  return fused;
}

/* Does fusion change the case? */
static inline bool op_case_fuses(const struct op_case *c) {
  struct neap_graph *plain = op_case_graph(c, false), *fused = op_case_graph(c, true);
  const bool fuses = fused->nodes.count < plain->nodes.count;
  neap_graph_free(plain);
  neap_graph_free(fused);
  return fuses;
}

/* With parameters in blocks, where the case has such. Frees the graph. */
static inline struct neap_graph *op_case_quantised(const struct op_case *c, struct neap_graph *graph) {
  struct neap_graph *quantised = NULL;
  if (c->store == NULL) return graph;
  assert_ok(rewrite_quantise(graph, &(struct store_options){.list = c->store}, &quantised));
  neap_graph_free(graph);
  return quantised;
}

/* The same with gradients and updates. */
static inline struct neap_graph *op_case_training(const struct op_case *c, bool fuse,
                                                  const struct optimizer *optimizer) {
  struct neap_graph *graph = op_case_quantised(c, op_case_graph(c, fuse));
  assert_ok(graph_add_training(graph, optimizer));
  return graph;
}

/* The same with values and parameters stored in `dtype`. */
static inline struct neap_graph *op_case_stored(const struct op_case *c, bool fuse, neap_dtype dtype,
                                                const struct optimizer *optimizer) {
  struct neap_graph *graph = op_case_graph(c, fuse), *stored = NULL;
  assert_ok(rewrite_precision(graph, dtype, false, &stored));
  neap_graph_free(graph);
  stored = op_case_quantised(c, stored);
  assert_ok(graph_add_training(stored, optimizer));
  return stored;
}

/* The same where ReLU keeps bits. */
static inline struct neap_graph *op_case_masked(const struct op_case *c, const struct optimizer *optimizer) {
  struct neap_graph *graph = op_case_training(c, true, optimizer), *masked = NULL;
  assert_ok(rewrite_mask(graph, &masked));
  neap_graph_free(graph);
  return masked;
}

static inline int32_t count_nodes(const struct neap_graph *graph, enum op op) {
  int32_t count = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) count += graph->nodes.data[v].op == (int32_t)op;
  return count;
}

/* An unrelated stream of numbers in [0, 1): xorshift64* (Vigna 2016), seeded by what is filled. */
static inline double op_case_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (double)(*state * 0x2545F4914F6CDD1Du >> 11) * 0x1p-53;
}

/* Fills inputs, parameters and states (which are not negative) of any lowering of a case's graph, the same
 * for each, with numbers that floats hold exactly. Every third label is -1. */
static inline void op_case_fill(const struct interpreter *m) {
  const struct neap_graph *graph = m->lowered->graph;
  uint64_t state = 88172645463325252u;
  for (int32_t id = 0; id < (int32_t)graph->tensors.count; id++) {
    const struct tensor *t = &graph->tensors.data[id];
    if (t->role == NEAP_ROLE_VALUE || t->view_of >= 0) continue;
    /* Weights keep the variance of what they multiply. */
    const double fan = t->rank > 1 ? (double)(t->elements / t->dims[0]) : 12,
                 scale = t->role == NEAP_ROLE_PARAMETER ? __builtin_sqrt(12 / fan) : 2,
                 shift = t->initial == NEAP_INITIAL_ONE ? 1 : 0;
    double *values = malloc((size_t)t->elements * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < t->elements; i++) {
      const double u = op_case_random(&state);
      values[i] = t->dtype == NEAP_U8          ? (double)(u < 0.4)
                  : t->dtype == NEAP_I32       ? (i % 3 == 1 ? -1 : (double)(int)(u * OP_CASE_CLASSES))
                  : t->role == NEAP_ROLE_STATE ? (double)(float)u
                                               : (double)(float)(shift + scale * (u - 0.5));
    }
    interpreter_write(m, id, values);
    free(values);
  }
}

#endif
