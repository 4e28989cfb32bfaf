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
struct take_case {
  int axis;
  int64_t count;
  neap_take_options options;
};
static inline neap_tensor apply_take(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct take_case *o = c->options;
  return neap_take(b, x, o->axis, o->count, o->options);
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
/* The factor of x x^T, of rows of pixels or of all of a matrix. */
static inline neap_tensor apply_cholesky(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const float width = (float)(c->dims[2] > 0 ? c->dims[3] : c->dims[1]);
  return neap_cholesky(b, neap_scale(b, neap_matmul(b, x, x, false, true), 1 / width, 0.1f));
}
struct solve_case {
  bool transposed, right;
};
/* Of that factor and x. */
static inline neap_tensor apply_triangular_solve(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct solve_case *o = c->options;
  const neap_tensor l = apply_cholesky(b, x, c);
  if (o->right) x = neap_transpose(b, x, (int[]){0, 1, 3, 2});
  return neap_triangular_solve(b, l, x, o->transposed, o->right);
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

#include "op_cases_rows.h"

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
  assert_ok(rewrite_fuse(graph, false, &fused));
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
