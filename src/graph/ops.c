/* The table of operators: shapes, gradients, in-place pairs, FLOPs. */
#include <stdio.h>

#include "graph/op.h"

/* ---- Helpers ---- */

static const struct tensor *tensor_at(const struct neap_graph *graph, int32_t id) {
  return &graph->tensors.data[id];
}

static const struct tensor *input(const struct neap_graph *graph, const struct node *node, int32_t i) {
  return tensor_at(graph, node->inputs[i]);
}

static struct tensor like(const struct tensor *t) {
  struct tensor copy = *t;
  copy.role = NEAP_ROLE_VALUE;
  copy.view_of = -1;
  return copy;
}

static struct tensor value(neap_dtype dtype, int32_t rank, int64_t d0, int64_t d1) {
  return (struct tensor){
      .dtype = dtype, .role = NEAP_ROLE_VALUE, .rank = rank, .dims = {d0, d1}, .view_of = -1};
}

/* Windows along an axis: (size + 2 padding - window) / stride + 1, or a clear error. Rounded up, a last
 * window must still begin inside the image or the padding before it. */
static neap_status window_count(const struct node *node, int axis, int64_t size, int64_t window,
                                int64_t dilation, int64_t *count) {
  const struct attributes *a = &node->attributes;
  const int64_t padding = padding_of(a, axis);
  int64_t extent, padded, twice;
  const bool overflow = __builtin_mul_overflow(window - 1, dilation, &extent) ||
                        __builtin_add_overflow(extent, (int64_t)1, &extent) ||
                        __builtin_mul_overflow(padding, (int64_t)2, &twice) ||
                        __builtin_add_overflow(size, twice, &padded);
  RETURN_IF(overflow || window < 1 || dilation < 1 || a->stride < 1 || a->stride > INT32_MAX || padding < 0 ||
                padded > INT32_MAX || extent > padded,
            NEAP_INVALID_ARGUMENT,
            "%s '%s': a window of %lld (dilation %lld, stride %lld, padding %lld) does not fit %lld pixels",
            op_rows[node->op].name, node->name, (long long)window, (long long)dilation, (long long)a->stride,
            (long long)padding, (long long)size);
  *count = (padded - extent) / a->stride + 1;
  if (a->ceil && (padded - extent) % a->stride != 0 && *count * a->stride < size + padding) ++*count;
  return NEAP_OK;
}

static neap_status need_rank(const struct neap_graph *graph, const struct node *node, int32_t rank,
                             const char *shape) {
  const struct tensor *x = input(graph, node, 0);
  RETURN_IF(x->rank != rank || x->dtype != NEAP_F32, NEAP_INVALID_ARGUMENT,
            "%s '%s' takes %s of f32, but '%s' has %d dimensions or another type", op_rows[node->op].name,
            node->name, shape, x->name, x->rank);
  return NEAP_OK;
}

/* ---- Shapes ---- */

static neap_status infer_same(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  RETURN_IF(input(graph, node, 0)->dtype != NEAP_F32, NEAP_INVALID_ARGUMENT, "%s '%s' takes f32",
            op_rows[node->op].name, node->name);
  outputs[0] = like(input(graph, node, 0));
  return NEAP_OK;
}

static neap_status infer_conv(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  TRY(need_rank(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = input(graph, node, 0), *w = input(graph, node, 1);
  RETURN_IF(w->rank != 4 || w->dims[1] * node->attributes.groups != x->dims[1], NEAP_INVALID_ARGUMENT,
            "Conv '%s': %lld channels in %lld groups do not fit a kernel for %lld a group", node->name,
            (long long)x->dims[1], (long long)node->attributes.groups, (long long)w->dims[1]);
  outputs[0] = like(x);
  outputs[0].dims[1] = w->dims[0];
  for (int i = 2; i < 4; i++)
    TRY(window_count(node, i - 2, x->dims[i], w->dims[i], node->attributes.dilation, &outputs[0].dims[i]));
  return NEAP_OK;
}

static neap_status infer_statistics(const struct neap_graph *graph, const struct node *node,
                                    struct tensor *outputs) {
  const struct tensor *x = input(graph, node, 0);
  RETURN_IF(x->rank < 2 || x->dtype != NEAP_F32, NEAP_INVALID_ARGUMENT,
            "batch norm takes [N, C, ...] of f32, not '%s'", x->name);
  outputs[0] = outputs[1] = value(NEAP_F32, 1, x->dims[1], 0);
  return NEAP_OK;
}

static neap_status infer_add(const struct neap_graph *graph, const struct node *node,
                             struct tensor *outputs) {
  const struct tensor *a = input(graph, node, 0), *b = input(graph, node, 1);
  bool equal = a->rank == b->rank && a->dtype == b->dtype;
  for (int32_t i = 0; equal && i < a->rank; i++) equal = a->dims[i] == b->dims[i];
  RETURN_IF(!equal, NEAP_INVALID_ARGUMENT, "Add: '%s' and '%s' have different shapes", a->name, b->name);
  return infer_same(graph, node, outputs);
}

static neap_status infer_pool(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  TRY(need_rank(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = input(graph, node, 0);
  const struct attributes *a = &node->attributes;
  RETURN_IF(a->size > 15 || a->padding >= a->size, NEAP_INVALID_ARGUMENT,
            "%s '%s': the window may be 15 pixels wide at most and must be larger than its padding",
            op_rows[node->op].name, node->name);
  outputs[0] = like(x);
  for (int i = 2; i < 4; i++) TRY(window_count(node, i - 2, x->dims[i], a->size, 1, &outputs[0].dims[i]));
  if (node->op == OP_MAX_POOL) {
    outputs[1] = outputs[0];
    outputs[1].dtype = NEAP_U8;
  }
  return NEAP_OK;
}

static neap_status infer_global_pool(const struct neap_graph *graph, const struct node *node,
                                     struct tensor *outputs) {
  const struct tensor *x = input(graph, node, 0);
  RETURN_IF(x->rank < 3 || x->dtype != NEAP_F32, NEAP_INVALID_ARGUMENT,
            "GlobalAveragePool takes [N, C, pixels...] of f32, not '%s'", x->name);
  outputs[0] = value(NEAP_F32, 2, x->dims[0], x->dims[1]);
  return NEAP_OK;
}

static neap_status infer_linear(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  TRY(need_rank(graph, node, 2, "[N, K]"));
  const struct tensor *x = input(graph, node, 0), *w = input(graph, node, 1);
  RETURN_IF(w->rank != 2 || w->dims[1] != x->dims[1], NEAP_INVALID_ARGUMENT,
            "Linear '%s': [N, %lld] does not fit the weights", node->name, (long long)x->dims[1]);
  outputs[0] = value(NEAP_F32, 2, x->dims[0], w->dims[0]);
  return NEAP_OK;
}

/* Logits [N, classes, pixels...], a label for each [N, pixels...]. */
static neap_status infer_cross_entropy(const struct neap_graph *graph, const struct node *node,
                                       struct tensor *outputs) {
  const struct tensor *x = input(graph, node, 0), *y = input(graph, node, 1);
  RETURN_IF(x->rank < 2 || x->dtype != NEAP_F32, NEAP_INVALID_ARGUMENT,
            "SoftmaxCrossEntropy takes logits [N, classes, pixels...] of f32, not '%s'", x->name);
  bool fits = y->rank == x->rank - 1 && y->dtype == NEAP_I32 && y->dims[0] == x->dims[0];
  for (int32_t i = 1; fits && i < y->rank; i++) fits = y->dims[i] == x->dims[i + 1];
  RETURN_IF(!fits, NEAP_INVALID_ARGUMENT,
            "SoftmaxCrossEntropy: '%s' must be i32, a label for each row or pixel of '%s'", y->name, x->name);
  const float s = node->attributes.smoothing;
  RETURN_IF(!(s >= 0 && s < 1), NEAP_INVALID_ARGUMENT, "SoftmaxCrossEntropy: smoothing %g is not in [0, 1)",
            (double)s);
  outputs[0] = value(NEAP_F32, 1, 1, 0);
  outputs[1] = value(NEAP_I32, 1, 1, 0);
  return NEAP_OK;
}

/* Equal in all but the channels, which add up. */
static neap_status infer_concat(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  const struct tensor *x = input(graph, node, 0);
  int64_t channels = 0;
  for (int32_t i = 0; i < node->input_count; i++) {
    const struct tensor *part = input(graph, node, i);
    bool fits = part->dtype == NEAP_F32 && part->rank >= 2 && part->rank == x->rank;
    for (int32_t d = 0; fits && d < x->rank; d++) fits = d == 1 || part->dims[d] == x->dims[d];
    RETURN_IF(!fits, NEAP_INVALID_ARGUMENT,
              "Concat '%s' takes [N, C, ...] of f32, equal in all but the channels; '%s' and '%s' are not",
              node->name, x->name, part->name);
    RETURN_IF(__builtin_add_overflow(channels, part->dims[1], &channels), NEAP_TOO_LARGE,
              "Concat '%s': more channels than 64 bits count", node->name);
  }
  outputs[0] = like(x);
  outputs[0].dims[1] = channels;
  return NEAP_OK;
}

static neap_status infer_slice(const struct neap_graph *graph, const struct node *node,
                               struct tensor *outputs) {
  const struct tensor *x = input(graph, node, 0);
  const struct attributes *a = &node->attributes;
  RETURN_IF(x->rank < 2 || x->dtype != NEAP_F32, NEAP_INVALID_ARGUMENT,
            "Slice '%s' takes [N, C, ...] of f32, not '%s'", node->name, x->name);
  RETURN_IF(a->first < 0 || a->size < 1 || a->size > x->dims[1] || a->first > x->dims[1] - a->size,
            NEAP_INVALID_ARGUMENT, "Slice '%s': '%s' has %lld channels; there are no %lld from %lld on",
            node->name, x->name, (long long)x->dims[1], (long long)a->size, (long long)a->first);
  outputs[0] = like(x);
  outputs[0].dims[1] = a->size;
  return NEAP_OK;
}

static neap_status infer_local_response_norm(const struct neap_graph *graph, const struct node *node,
                                             struct tensor *outputs) {
  TRY(need_rank(graph, node, 4, "[N, C, H, W]"));
  const struct attributes *a = &node->attributes;
  RETURN_IF(a->size < 1 || a->size > INT32_MAX || !(a->alpha >= 0) || !(a->beta > 0) || !(a->k > 0),
            NEAP_INVALID_ARGUMENT,
            "LocalResponseNorm '%s': size %lld, alpha %g, beta %g and k %g must be positive", node->name,
            (long long)a->size, (double)a->alpha, (double)a->beta, (double)a->k);
  outputs[0] = like(input(graph, node, 0));
  return NEAP_OK;
}

static neap_status infer_dropout(const struct neap_graph *graph, const struct node *node,
                                 struct tensor *outputs) {
  const float p = node->attributes.probability;
  RETURN_IF(!(p >= 0 && p < 1), NEAP_INVALID_ARGUMENT, "Dropout: probability %g is not in [0, 1)", (double)p);
  return infer_same(graph, node, outputs);
}

/* (size - 1) stride - 2 padding + dilation (window - 1) + 1 + output_padding: the sizes that a convolution
 * with this window takes to `size` are as many as its stride, and output_padding says which. */
static neap_status infer_conv_transposed(const struct neap_graph *graph, const struct node *node,
                                         struct tensor *outputs) {
  TRY(need_rank(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = input(graph, node, 0), *w = input(graph, node, 1);
  const struct attributes *a = &node->attributes;
  RETURN_IF(w->rank != 4 || w->dims[0] != x->dims[1], NEAP_INVALID_ARGUMENT,
            "ConvTransposed '%s': %lld channels do not fit kernels for %lld", node->name,
            (long long)x->dims[1], (long long)w->dims[0]);
  RETURN_IF(a->output_padding < 0 || a->output_padding >= a->stride, NEAP_INVALID_ARGUMENT,
            "ConvTransposed '%s': output padding %lld must be less than the stride of %lld", node->name,
            (long long)a->output_padding, (long long)a->stride);
  outputs[0] = like(x);
  outputs[0].dims[1] = w->dims[1];
  for (int i = 2; i < 4; i++) {
    int64_t size, count;
    const bool overflow = __builtin_mul_overflow(x->dims[i] - 1, a->stride, &size) ||
                          __builtin_sub_overflow(size, a->padding, &size) ||
                          __builtin_sub_overflow(size, a->padding, &size) ||
                          __builtin_add_overflow(size, w->dims[i], &size) ||
                          __builtin_add_overflow(size, a->output_padding, &size);
    RETURN_IF(overflow || size < 1, NEAP_INVALID_ARGUMENT,
              "ConvTransposed '%s': padding %lld leaves nothing of %lld pixels", node->name,
              (long long)a->padding, (long long)x->dims[i]);
    TRY(window_count(node, i - 2, size, w->dims[i], 1, &count));
    outputs[0].dims[i] = size;
  }
  return NEAP_OK;
}

static neap_status infer_crop(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  TRY(need_rank(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = input(graph, node, 0);
  const struct attributes *a = &node->attributes;
  const bool inside = a->top >= 0 && a->left >= 0 && a->height >= 1 && a->width >= 1 &&
                      a->height <= x->dims[2] && a->top <= x->dims[2] - a->height && a->width <= x->dims[3] &&
                      a->left <= x->dims[3] - a->width;
  RETURN_IF(!inside, NEAP_INVALID_ARGUMENT,
            "Crop '%s': %lldx%lld pixels from (%lld, %lld) are not inside '%s' of %lldx%lld", node->name,
            (long long)a->height, (long long)a->width, (long long)a->top, (long long)a->left, x->name,
            (long long)x->dims[2], (long long)x->dims[3]);
  outputs[0] = like(x);
  outputs[0].dims[2] = a->height;
  outputs[0].dims[3] = a->width;
  return NEAP_OK;
}

static neap_status infer_resize(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  TRY(need_rank(graph, node, 4, "[N, C, H, W]"));
  outputs[0] = like(input(graph, node, 0));
  outputs[0].dims[2] = node->attributes.height;
  outputs[0].dims[3] = node->attributes.width;
  return NEAP_OK;
}

static neap_status infer_adaptive_pool(const struct neap_graph *graph, const struct node *node,
                                       struct tensor *outputs) {
  TRY(need_rank(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = input(graph, node, 0);
  const int64_t size = node->attributes.size;
  RETURN_IF(size < 1 || size > x->dims[2] || size > x->dims[3], NEAP_INVALID_ARGUMENT,
            "AdaptiveAveragePool '%s': %lldx%lld pixels do not make %lld rows and columns", node->name,
            (long long)x->dims[2], (long long)x->dims[3], (long long)size);
  outputs[0] = like(x);
  outputs[0].dims[2] = outputs[0].dims[3] = size;
  return NEAP_OK;
}

/* ---- Gradients ---- */

static neap_status emit(struct gradient *g, enum op op, const struct node *node, int32_t target, int32_t a,
                        int32_t b) {
  return gradient_emit(g, op, node, target, (int32_t[]){a, b}, b < 0 ? 1 : 2);
}

static neap_status gradient_conv(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]], *in = n->inputs;
  if (n->attributes.bias) TRY(emit(g, OP_BIAS_BACKWARD, n, in[n->input_count - 1], dy, -1));
  TRY(emit(g, OP_CONV_BACKWARD_WEIGHTS, n, in[1], in[0], dy)); /* first: then x may die */
  TRY(emit(g, OP_CONV_BACKWARD_DATA, n, in[0], in[1], dy));
  return n->attributes.addend ? gradient_add(g, in[2], dy) : NEAP_OK;
}

static neap_status gradient_linear(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]], *in = n->inputs;
  if (n->attributes.bias) TRY(emit(g, OP_BIAS_BACKWARD, n, in[n->input_count - 1], dy, -1));
  TRY(emit(g, OP_LINEAR_BACKWARD_WEIGHTS, n, in[1], in[0], dy));
  return emit(g, OP_LINEAR_BACKWARD_DATA, n, in[0], in[1], dy);
}

/* One node gives all three gradients; what has come to x by another way is added in the same pass. */
static neap_status gradient_batch_norm(struct gradient *g, const struct node *n) {
  const int32_t *in = n->inputs, x = graph_storage(g->graph, in[0]);
  const bool addend = g->of[x] >= 0 && x == in[0];
  const int32_t inputs[] = {in[0], g->of[n->outputs[0]], in[1], in[2], in[3], in[4], g->of[x]};
  int32_t outputs[3];
  TRY(graph_add_like(g->graph, in[0], "dx", &outputs[0]));
  TRY(graph_add_like(g->graph, in[3], "dgamma", &outputs[1]));
  TRY(graph_add_like(g->graph, in[4], "dbeta", &outputs[2]));
  struct node node = {.name = n->name,
                      .op = OP_BATCH_NORM_BACKWARD,
                      .pass = NEAP_PASS_BACKWARD,
                      .attributes = n->attributes,
                      .inputs = inputs,
                      .input_count = addend ? 7 : 6,
                      .outputs = outputs,
                      .output_count = 3};
  node.attributes.addend = addend;
  TRY(graph_add_node(g->graph, node));
  TRY(gradient_add(g, in[3], outputs[1]));
  TRY(gradient_add(g, in[4], outputs[2]));
  if (addend) g->of[x] = -1; /* it is inside dx now */
  return gradient_add(g, in[0], outputs[0]);
}

static neap_status gradient_relu(struct gradient *g, const struct node *n) {
  return emit(g, OP_RELU_BACKWARD, n, n->inputs[0], n->outputs[0], g->of[n->outputs[0]]);
}

static neap_status gradient_sum(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]];
  TRY(gradient_add(g, n->inputs[0], dy));
  return gradient_add(g, n->inputs[1], dy);
}

static neap_status gradient_max_pool(struct gradient *g, const struct node *n) {
  return emit(g, OP_MAX_POOL_BACKWARD, n, n->inputs[0], n->outputs[1], g->of[n->outputs[0]]);
}

static neap_status gradient_average_pool(struct gradient *g, const struct node *n) {
  return emit(g, OP_AVERAGE_POOL_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]], -1);
}

static neap_status gradient_global_pool(struct gradient *g, const struct node *n) {
  return emit(g, OP_GLOBAL_AVERAGE_POOL_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]], -1);
}

static neap_status gradient_dropout(struct gradient *g, const struct node *n) {
  return emit(g, OP_DROPOUT, n, n->inputs[0], g->of[n->outputs[0]], -1);
}

/* A transposed convolution is a convolution's gradient by its input, so its own gradients are that
 * convolution and that convolution's gradient by its kernels, with input and output exchanged. */
static neap_status gradient_conv_transposed(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]], *in = n->inputs;
  struct node plain = *n;
  plain.attributes.bias = false;
  if (n->attributes.bias) TRY(emit(g, OP_BIAS_BACKWARD, n, in[2], dy, -1));
  TRY(emit(g, OP_CONV_BACKWARD_WEIGHTS, &plain, in[1], dy, in[0]));
  return emit(g, OP_CONV, &plain, in[0], dy, in[1]);
}

/* What has come to x by another way is added in the same pass. */
static neap_status gradient_crop(struct gradient *g, const struct node *n) {
  const int32_t x = n->inputs[0], base = graph_storage(g->graph, x), before = g->of[base];
  struct node crop = *n;
  crop.attributes.addend = before >= 0 && x == base;
  if (crop.attributes.addend) g->of[base] = -1; /* it is inside dx now */
  return emit(g, OP_CROP_BACKWARD, &crop, x, g->of[n->outputs[0]], crop.attributes.addend ? before : -1);
}

static neap_status gradient_resize(struct gradient *g, const struct node *n) {
  return emit(g, OP_RESIZE_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]], -1);
}

static neap_status gradient_adaptive_pool(struct gradient *g, const struct node *n) {
  return emit(g, OP_ADAPTIVE_AVERAGE_POOL_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]], -1);
}

static neap_status gradient_relu6(struct gradient *g, const struct node *n) {
  return emit(g, OP_RELU6_BACKWARD, n, n->inputs[0], n->outputs[0], g->of[n->outputs[0]]);
}

/* Each part's own channels; what has come to it by another way is added in the same pass. */
static neap_status gradient_concat(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]];
  struct node part = *n;
  part.attributes.first = 0;
  for (int32_t i = 0; i < n->input_count; i++) {
    const int32_t x = n->inputs[i], base = graph_storage(g->graph, x), before = g->of[base];
    part.attributes.size = tensor_at(g->graph, x)->dims[1];
    part.attributes.addend = before >= 0 && x == base;
    if (part.attributes.addend) g->of[base] = -1; /* it is inside the slice now */
    TRY(emit(g, OP_SLICE, &part, x, dy, part.attributes.addend ? before : -1));
    part.attributes.first += part.attributes.size;
  }
  return NEAP_OK;
}

static neap_status gradient_slice(struct gradient *g, const struct node *n) {
  return emit(g, OP_SLICE_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]], -1);
}

static neap_status gradient_local_response_norm(struct gradient *g, const struct node *n) {
  return emit(g, OP_LOCAL_RESPONSE_NORM_BACKWARD, n, n->inputs[0], n->inputs[0], g->of[n->outputs[0]]);
}

/* The loss is where gradients begin: d loss / d loss = 1. */
static neap_status gradient_cross_entropy(struct gradient *g, const struct node *n) {
  return emit(g, OP_SOFTMAX_CROSS_ENTROPY_BACKWARD, n, n->inputs[0], n->inputs[0], n->inputs[1]);
}

/* ---- FLOPs ---- */

/* Of a convolution in any direction: 2 N K H' W' (C / groups) R S, from the larger pair of its tensors. */
static double flops_conv(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *w, *y;
  if (node->op == OP_CONV) {
    w = input(graph, node, 1);
    y = tensor_at(graph, node->outputs[0]);
  } else if (node->op == OP_CONV_TRANSPOSED) {
    w = input(graph, node, 1);
    y = input(graph, node, 0);
  } else {
    w = node->op == OP_CONV_BACKWARD_DATA ? input(graph, node, 0) : tensor_at(graph, node->outputs[0]);
    y = input(graph, node, 1);
  }
  return 2.0 * (double)y->elements * (double)w->elements / (double)w->dims[0];
}

static double flops_linear(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *w = node->op == OP_LINEAR                 ? input(graph, node, 1)
                           : node->op == OP_LINEAR_BACKWARD_DATA ? input(graph, node, 0)
                                                                 : tensor_at(graph, node->outputs[0]);
  return 2.0 * (double)w->elements * (double)input(graph, node, node->op == OP_LINEAR ? 0 : 1)->dims[0];
}

/* Squares, their sums over the window and a power for each element; twice the sums in the gradient. */
static double flops_local_response_norm(const struct neap_graph *graph, const struct node *node) {
  const double window = (double)node->attributes.size, elements = (double)input(graph, node, 0)->elements;
  return elements * (node->op == OP_LOCAL_RESPONSE_NORM ? window + 6 : 2 * window + 12);
}

double node_flops(const struct neap_graph *graph, const struct node *node) {
  const struct op_row *row = &op_rows[node->op];
  return row->flops != NULL ? row->flops(graph, node) : 0;
}

static double volume(const struct tensor *t) {
  return t->dtype == NEAP_BIT ? (double)bit_bytes((uint64_t)t->elements)
                              : (double)t->elements * (double)dtype_bytes(t->dtype);
}

double node_bytes(const struct neap_graph *graph, const struct node *node) {
  double bytes = 0;
  for (int32_t i = 0; i < node->input_count; i++) bytes += volume(input(graph, node, i));
  for (int32_t i = 0; i < node->output_count; i++) bytes += volume(tensor_at(graph, node->outputs[i]));
  for (int32_t i = 0; i < node->update_count; i++) bytes += volume(tensor_at(graph, node->updates[i]));
  return bytes;
}

/* ---- The table ---- */

static const struct inplace_pair first[] = {{0, 0}}, second[] = {{0, 1}}, either[] = {{0, 0}, {0, 1}},
                                 addend[] = {{0, 2}}, norm_backward[] = {{0, 1}, {0, 6}, {0, 0}},
                                 later[] = {{0, 1}, {0, 0}};
#define INPLACE(pairs) .inplace = pairs, .inplace_count = sizeof pairs / sizeof *pairs

const struct op_row op_rows[OP_COUNT] = {
    [OP_CONV] = {"Conv", "convolution: stride, padding, dilation, groups, bias", 1, infer_conv, gradient_conv,
                 INPLACE(addend), .flops = flops_conv},
    [OP_BATCH_NORM_STATISTICS] = {"BatchNormStatistics", "mean and variance by channel", 2, infer_statistics,
                                  NULL},
    [OP_BATCH_NORM] = {"BatchNorm", "normalisation by channel, with or without ReLU", 1, infer_same,
                       gradient_batch_norm, INPLACE(first)},
    [OP_RELU] = {"Relu", "max(0, x)", 1, infer_same, gradient_relu, INPLACE(first)},
    [OP_ADD] = {"Add", "sum of two tensors", 1, infer_add, gradient_sum, INPLACE(either)},
    [OP_MAX_POOL] = {"MaxPool", "maximum over windows, with or without ReLU; keeps a byte an element", 2,
                     infer_pool, gradient_max_pool},
    [OP_AVERAGE_POOL] = {"AveragePool", "mean over windows, with or without padding", 1, infer_pool,
                         gradient_average_pool},
    [OP_GLOBAL_AVERAGE_POOL] = {"GlobalAveragePool", "mean over all pixels", 1, infer_global_pool,
                                gradient_global_pool},
    [OP_LINEAR] = {"Linear", "x W^T + b", 1, infer_linear, gradient_linear, .flops = flops_linear},
    [OP_DROPOUT] = {"Dropout", "random zeros from a counter; its own gradient", 1, infer_dropout,
                    gradient_dropout, INPLACE(first)},
    [OP_RELU6] = {"Relu6", "min(max(0, x), 6)", 1, infer_same, gradient_relu6, INPLACE(first)},
    [OP_CONCAT] = {"Concat", "channels of several tensors one after the other", 1, infer_concat,
                   gradient_concat},
    [OP_SLICE] = {"Slice", "some channels, with or without an addend; gradient of a concatenation", 1,
                  infer_slice, gradient_slice, INPLACE(second)},
    [OP_LOCAL_RESPONSE_NORM] = {"LocalResponseNorm", "x over a power of its neighbours' squares by channel",
                                1, infer_local_response_norm, gradient_local_response_norm, INPLACE(first),
                                .flops = flops_local_response_norm},
    [OP_SOFTMAX_CROSS_ENTROPY] = {"SoftmaxCrossEntropy",
                                  "fused loss with label smoothing; counts right answers", 2,
                                  infer_cross_entropy, gradient_cross_entropy},
    [OP_CONV_TRANSPOSED] = {"ConvTransposed", "a convolution from its output to its input: upsampling", 1,
                            infer_conv_transposed, gradient_conv_transposed, .flops = flops_conv},
    [OP_CROP] = {"Crop", "a rectangle of pixels", 1, infer_crop, gradient_crop},
    [OP_RESIZE] = {"Resize", "bilinear interpolation, corners aligned or not", 1, infer_resize,
                   gradient_resize},
    [OP_ADAPTIVE_AVERAGE_POOL] = {"AdaptiveAveragePool", "mean over k x k regions of any image", 1,
                                  infer_adaptive_pool, gradient_adaptive_pool},
    [OP_CONV_BACKWARD_DATA] = {"ConvBackwardData", "gradient of a convolution's input", 1,
                               .flops = flops_conv},
    [OP_CONV_BACKWARD_WEIGHTS] = {"ConvBackwardWeights", "gradient of a convolution's kernels", 1,
                                  .flops = flops_conv},
    [OP_BIAS_BACKWARD] = {"BiasBackward", "gradient of a bias: sum by channel", 1},
    [OP_BATCH_NORM_BACKWARD] = {"BatchNormBackward",
                                "gradients of batch norm and its ReLU, added to what is there", 3,
                                INPLACE(norm_backward)},
    [OP_RELU_BACKWARD] = {"ReluBackward", "gradient of ReLU from its output", 1, INPLACE(second)},
    [OP_MAX_POOL_BACKWARD] = {"MaxPoolBackward", "gradient of a max pool from its indices", 1},
    [OP_AVERAGE_POOL_BACKWARD] = {"AveragePoolBackward", "gradient of an average pool", 1},
    [OP_GLOBAL_AVERAGE_POOL_BACKWARD] = {"GlobalAveragePoolBackward", "gradient of a global average pool", 1},
    [OP_LINEAR_BACKWARD_DATA] = {"LinearBackwardData", "gradient of a linear layer's input", 1,
                                 .flops = flops_linear},
    [OP_LINEAR_BACKWARD_WEIGHTS] = {"LinearBackwardWeights", "gradient of a linear layer's weights", 1,
                                    .flops = flops_linear},
    [OP_RELU6_BACKWARD] = {"Relu6Backward", "gradient of ReLU6 from its output", 1, INPLACE(later)},
    [OP_SLICE_BACKWARD] = {"SliceBackward", "gradient of a slice: zeros around it", 1},
    [OP_LOCAL_RESPONSE_NORM_BACKWARD] = {"LocalResponseNormBackward",
                                         "gradient of local response normalisation from its input", 1,
                                         INPLACE(later), .flops = flops_local_response_norm},
    [OP_SOFTMAX_CROSS_ENTROPY_BACKWARD] = {"SoftmaxCrossEntropyBackward",
                                           "gradient of the loss by the logits", 1, INPLACE(first)},
    [OP_CROP_BACKWARD] = {"CropBackward", "gradient of a crop: zeros around, added to what is there", 1,
                          INPLACE(second)},
    [OP_RESIZE_BACKWARD] = {"ResizeBackward", "gradient of a bilinear resize", 1},
    [OP_ADAPTIVE_AVERAGE_POOL_BACKWARD] = {"AdaptiveAveragePoolBackward",
                                           "gradient of an adaptive average pool", 1},
    [OP_RELU_MASK] = {"ReluMask", "max(0, x), and a bit an element for its gradient", 2, INPLACE(first)},
    [OP_RELU_MASK_BACKWARD] = {"ReluMaskBackward", "gradient of ReLU from its bits", 1, INPLACE(second)},
    [OP_SGD] = {"SGD", "update: momentum, Nesterov, weight decay", 0},
    [OP_ADAMW] = {"AdamW", "update: Adam with decoupled weight decay", 0},
    [OP_RUNNING_STATISTICS] = {"RunningStatistics", "update: running mean and variance, once a step", 0},
    [OP_REORDER] = {"Reorder", "the same tensor in another memory layout", 1},
};

bool neap_operator_at(int32_t index, neap_row *row) {
  if (index < 0 || index >= OP_COUNT) return false;
  *row = (neap_row){.name = op_rows[index].name, .summary = op_rows[index].summary};
  return true;
}
