/* Layers with weights, norms and pooling. */
#include <math.h>
#include <string.h>

#include "model/onnx_operators.h"

/* ---- Windows ---- */

/* The window of rows and columns. */
struct window {
  int64_t size[2], stride[2], dilation[2], padding[2];
};

/* Reads the `axes` numbers of an attribute, one for each axis, or twice as many; those of a sequence are for
 * columns. */
static neap_status read_numbers(struct import *m, const struct onnx_node *n, const char *name, int32_t axes,
                                int64_t usual, int64_t numbers[2]) {
  const struct onnx_attribute *a = onnx_attribute(n, name);
  numbers[0] = axes == 2 || usual != 0 ? usual : 0;
  numbers[1] = usual;
  if (a == NULL) return NEAP_OK;
  if (a->kind != ONNX_INTS || a->count != axes) return refuse(m, "%s does not fit its input", name);
  for (int32_t i = 0; i < axes; i++) numbers[2 - axes + i] = a->integers[i];
  for (int i = 0; i < 2; i++)
    if (numbers[i] < 1 || numbers[i] > INT32_MAX)
      return refuse(m, "%s must be 1 or more (got %lld)", name, (long long)numbers[i]);
  return NEAP_OK;
}

/* Pads so that the result is as large as the input over the stride; both sides must be equal. */
static neap_status pad_same(struct import *m, const struct value *x, int32_t axes, struct window *w) {
  for (int32_t i = 2 - axes; i < 2; i++) {
    const int64_t size = x->dims[x->rank - 2 + i], count = (size + w->stride[i] - 1) / w->stride[i],
                  whole = (count - 1) * w->stride[i] + (w->size[i] - 1) * w->dilation[i] + 1 - size;
    w->padding[i] = whole > 0 ? whole / 2 : 0;
    if (whole > 0 && whole % 2 != 0)
      return refuse(m, "auto_pad pads one side more than the other, which is not supported");
  }
  return NEAP_OK;
}

static neap_status read_padding(struct import *m, const struct onnx_node *n, const struct value *x,
                                int32_t axes, struct window *w) {
  const struct onnx_attribute *pads = onnx_attribute(n, "pads");
  const char *automatic = node_text(n, "auto_pad", "NOTSET");
  if (strcmp(automatic, "SAME_UPPER") == 0 || strcmp(automatic, "SAME_LOWER") == 0)
    return pad_same(m, x, axes, w);
  if (strcmp(automatic, "NOTSET") != 0 || pads == NULL) return NEAP_OK;
  if (pads->kind != ONNX_INTS || pads->count != 2 * axes) return refuse(m, "pads does not fit its input");
  for (int32_t i = 0; i < axes; i++) {
    const int64_t before = pads->integers[i], behind = pads->integers[axes + i];
    if (before != behind || before < 0 || before > INT32_MAX)
      return refuse(m, "pads %lld before and %lld after an axis: both sides must have the same padding",
                    (long long)before, (long long)behind);
    w->padding[2 - axes + i] = before;
  }
  return NEAP_OK;
}

/* Reads a window. `size`: of the kernel, if the weights have it; else it is an attribute. */
static neap_status read_window(struct import *m, const struct onnx_node *n, const int64_t *size,
                               struct window *w) {
  const struct value *x = input_of(m, n, 0);
  const int32_t axes = x->rank - 2;
  *w = (struct window){.size = {1, 1}};
  if (axes < 1 || axes > 2)
    return refuse(m, "its input has %d dimensions; images [N, C, H, W] and sequences [N, C, L] are supported",
                  x->rank);
  TRY(read_numbers(m, n, "strides", axes, 1, w->stride));
  TRY(read_numbers(m, n, "dilations", axes, 1, w->dilation));
  if (size != NULL)
    memcpy(&w->size[2 - axes], size, (size_t)axes * sizeof *size);
  else
    TRY(read_numbers(m, n, "kernel_shape", axes, 1, w->size));
  if (size == NULL && onnx_attribute(n, "kernel_shape") == NULL) return refuse(m, "it has no kernel_shape");
  TRY(read_padding(m, n, x, axes, w));
  if (axes == 1) w->stride[0] = w->stride[1], w->dilation[0] = w->dilation[1];
  if (w->stride[0] != w->stride[1] || w->dilation[0] != w->dilation[1])
    return refuse(m, "strides or dilations that differ by axis are not supported");
  return NEAP_OK;
}

/* View a sequence [N, C, L] as an image of one row, and back. */
static neap_tensor as_image(struct import *m, neap_tensor x) {
  int64_t d[NEAP_MAX_RANK];
  return neap_shape(m->builder, x, d) == 3 ? neap_reshape(m->builder, x, 4, (int64_t[]){d[0], d[1], 1, d[2]})
                                           : x;
}

static neap_status set_image(struct import *m, const struct onnx_node *n, neap_tensor y) {
  int64_t d[NEAP_MAX_RANK] = {0};
  const bool sequence = input_of(m, n, 0)->rank == 3;
  if (sequence && neap_shape(m->builder, y, d) == 4)
    y = neap_reshape(m->builder, y, 3, (int64_t[]){d[0], d[1], d[3]});
  return set_output(m, n, 0, y);
}

/* ---- Convolutions ---- */

static neap_status optional_tensor(struct import *m, const struct onnx_node *n, int32_t i, neap_tensor *x) {
  *x = NO_TENSOR;
  return input_of(m, n, i) != NULL ? tensor_of(m, n, i, x) : NEAP_OK;
}

/* Returns true for a bias of zeros, which an exporter may write and which is left out. */
static bool is_zero(const struct value *v) {
  if (v == NULL || v->constant == NULL) return false;
  for (int64_t i = 0; i < v->constant->elements; i++)
    if (constant_real(v->constant, i) != 0) return false;
  return true;
}

/* Reads a number in whose place 0 would mean another one to the operator. */
static neap_status read_positive(struct import *m, const struct onnx_node *n, const char *name, float usual,
                                 float *number) {
  *number = node_real(n, name, usual);
  return *number > 0 && isfinite(*number) ? NEAP_OK
                                          : refuse(m, "%s must be positive (got %g)", name, (double)*number);
}

neap_status import_conv(struct import *m, const struct onnx_node *n) {
  struct window w;
  neap_tensor x, weight, bias = NO_TENSOR;
  TRY(tensor_of(m, n, 0, &x));
  TRY(tensor_of(m, n, 1, &weight));
  const struct value *v = input_of(m, n, 1);
  if (v->rank != input_of(m, n, 0)->rank || v->rank < 3) return refuse(m, "its weights do not fit its input");
  TRY(read_window(m, n, &v->dims[2], &w));
  if (!is_zero(input_of(m, n, 2))) TRY(optional_tensor(m, n, 2, &bias));
  const int64_t groups = node_integer(n, "group", 1);
  if (groups < 1) return refuse(m, "group must be 1 or more (got %lld)", (long long)groups);
  const neap_conv_options o = {.stride = w.stride[1],
                               .dilation = w.dilation[1],
                               .groups = groups,
                               .padding_height = w.padding[0],
                               .padding_width = w.padding[1]};
  return set_image(m, n, neap_conv_with(m->builder, as_image(m, x), as_image(m, weight), bias, o));
}

neap_status import_conv_transpose(struct import *m, const struct onnx_node *n) {
  struct window w;
  int64_t extra[2];
  neap_tensor x, weight, bias;
  TRY(tensor_of(m, n, 0, &x));
  TRY(tensor_of(m, n, 1, &weight));
  const struct value *v = input_of(m, n, 1);
  const struct onnx_attribute *out = onnx_attribute(n, "output_padding");
  if (v->rank != 4 || input_of(m, n, 0)->rank != 4 || node_integer(n, "group", 1) != 1 ||
      onnx_attribute(n, "output_shape") != NULL || strcmp(node_text(n, "auto_pad", "NOTSET"), "NOTSET") != 0)
    return refuse(m, "only images with one group, pads and no output_shape are supported");
  TRY(read_window(m, n, &v->dims[2], &w));
  TRY(optional_tensor(m, n, 2, &bias));
  for (int i = 0; i < 2; i++)
    extra[i] = out != NULL && out->kind == ONNX_INTS && out->count == 2 ? out->integers[i] : 0;
  if (extra[0] != extra[1] || w.dilation[1] != 1)
    return refuse(m, "dilations, and an output_padding that differs by axis, are not supported");
  const union attributes a = {.conv = {.stride = w.stride[1],
                                       .dilation = 1,
                                       .groups = 1,
                                       .padding = {w.padding[0], w.padding[1]},
                                       .output_padding = extra[0]}};
  return set_output(m, n, 0,
                    builder_next(m->builder, OP_CONV_TRANSPOSED, a, (int32_t[]){x, weight, bias}, 3));
}

/* ---- Products ---- */

/* Multiplies; x [..., K] times weights [K, N] is one product of rows. */
static neap_tensor product(struct import *m, neap_tensor x, neap_tensor y, bool x_transposed,
                           bool y_transposed) {
  int64_t d[NEAP_MAX_RANK], e[NEAP_MAX_RANK];
  const int rank = neap_shape(m->builder, x, d), other = neap_shape(m->builder, y, e);
  if (rank < 3 || other != 2 || x_transposed)
    return neap_matmul(m->builder, x, y, x_transposed, y_transposed);
  const neap_tensor rows = neap_reshape(m->builder, x, 2, (int64_t[]){-1, d[rank - 1]});
  const neap_tensor z = neap_matmul(m->builder, rows, y, false, y_transposed);
  d[rank - 1] = y_transposed ? e[0] : e[1];
  return neap_reshape(m->builder, z, rank, d);
}

/* A vector is a row on the left and a column on the right; that axis is removed from the result. */
neap_status import_matmul(struct import *m, const struct onnx_node *n) {
  neap_tensor x, y;
  int64_t d[NEAP_MAX_RANK];
  TRY(tensor_of(m, n, 0, &x));
  TRY(tensor_of(m, n, 1, &y));
  const struct value *a = input_of(m, n, 0), *b = input_of(m, n, 1);
  if (a->rank == 0 || b->rank == 0) return refuse(m, "its inputs must be matrices, not numbers");
  if (a->rank == 1) x = neap_reshape(m->builder, x, 2, (int64_t[]){1, a->dims[0]});
  if (b->rank == 1) y = neap_reshape(m->builder, y, 2, (int64_t[]){b->dims[0], 1});
  const neap_tensor z = product(m, x, y, false, false);
  int rank = z < 0 ? 0 : neap_shape(m->builder, z, d), kept = 0;
  if (z < 0 || (a->rank > 1 && b->rank > 1)) return set_output(m, n, 0, z);
  for (int i = 0; i < rank; i++)
    if (!(a->rank == 1 && i == rank - 2) && !(b->rank == 1 && i == rank - 1)) d[kept++] = d[i];
  const int64_t one = 1;
  return set_output_rank(m, n, 0, neap_reshape(m->builder, z, kept > 0 ? kept : 1, kept > 0 ? d : &one),
                         kept);
}

/* alpha A B + beta C */
neap_status import_gemm(struct import *m, const struct onnx_node *n) {
  neap_tensor x, y, c;
  const bool left = node_integer(n, "transA", 0) != 0, right = node_integer(n, "transB", 0) != 0;
  const float alpha = node_real(n, "alpha", 1), beta = node_real(n, "beta", 1);
  TRY(tensor_of(m, n, 0, &x));
  TRY(tensor_of(m, n, 1, &y));
  TRY(optional_tensor(m, n, 2, &c));
  const struct value *weight = input_of(m, n, 1), *bias = input_of(m, n, 2);
  if (input_of(m, n, 0)->rank != 2 || weight->rank != 2) return refuse(m, "its inputs must be matrices");
  if (!left && right && alpha == 1 && beta == 1 &&
      (bias == NULL || (bias->rank == 1 && bias->dims[0] == weight->dims[0])))
    return set_output(m, n, 0, neap_linear_with(m->builder, x, y, c));
  neap_tensor z = neap_matmul(m->builder, x, y, left, right);
  if (alpha != 1) z = neap_scale(m->builder, z, alpha, 0);
  if (c != NO_TENSOR && beta != 1) c = neap_scale(m->builder, c, beta, 0);
  if (c != NO_TENSOR) z = neap_add(m->builder, z, c);
  return set_output(m, n, 0, z);
}

/* ---- Norms ---- */

/* Reads a running statistic. Each norm has its own; exporters write equal ones once. */
static neap_status read_statistic(struct import *m, const struct onnx_node *n, int32_t i, neap_tensor *x) {
  struct value *v = input_of(m, n, i);
  if (v == NULL || v->rank != 1 || (v->weight == NULL && v->constant == NULL))
    return refuse(m, "its running mean and variance must be weights of the file");
  const int32_t readers = ++v->readers;
  const char *name =
      readers > 1 || v->in_graph ? region_format(&m->region, "%s.%d", v->name, readers) : v->name;
  RETURN_IF_NULL(name);
  if (strlen(name) >= NAME_LIMIT) return refuse(m, "'%.100s...' is longer than a name may be", name);
  *x = builder_variable(m->builder, name, "", NEAP_F32, NEAP_ROLE_STATE,
                        i == 4 ? NEAP_INITIAL_ONE : NEAP_INITIAL_ZERO, 1, v->dims);
  if (*x < 0) return refuse(m, "%s", neap_error_message());
  return vector_push(&m->first, (struct first_values){name, v->weight, v->constant});
}

neap_status import_batch_norm(struct import *m, const struct onnx_node *n) {
  struct batch_norm_variables v;
  neap_tensor x;
  TRY(need_inputs(m, n, 5));
  TRY(tensor_of(m, n, 0, &x));
  TRY(tensor_of(m, n, 1, &v.gamma));
  TRY(tensor_of(m, n, 2, &v.beta));
  const struct value *t = input_of(m, n, 0);
  for (int32_t i = 1; i < 5; i++)
    if (t->rank < 2 || input_of(m, n, i)->rank != 1 || input_of(m, n, i)->dims[0] != t->dims[1])
      return refuse(m, "its input %d does not fit the channels of its first", i);
  for (int32_t i = 1; i < n->output_count; i++)
    if (n->outputs[i][0] != '\0' && m->file.opset < 14)
      return refuse(m, "its statistics as outputs are not supported");
  TRY(read_statistic(m, n, 3, &v.running_mean));
  TRY(read_statistic(m, n, 4, &v.running_variance));
  neap_batch_norm_options o = {.momentum = 1 - node_real(n, "momentum", 0.9f)};
  TRY(read_positive(m, n, "epsilon", 1e-5f, &o.epsilon));
  if (!(o.momentum > 0 && o.momentum <= 1))
    return refuse(m, "momentum must be in [0, 1), so that its statistics move (got %g)",
                  1 - (double)o.momentum);
  return set_output(m, n, 0, builder_batch_norm(m->builder, x, o, &v));
}

/* Returns a scale or offset as a vector. */
static neap_tensor flat(struct import *m, neap_tensor x) {
  int64_t all = -1;
  return x == NO_TENSOR || neap_shape(m->builder, x, NULL) == 1 ? x : neap_reshape(m->builder, x, 1, &all);
}

static neap_status import_row_norm(struct import *m, const struct onnx_node *n, bool centred) {
  neap_tensor x, gamma, beta = NO_TENSOR;
  TRY(tensor_of(m, n, 0, &x));
  TRY(tensor_of(m, n, 1, &gamma));
  if (centred && !is_zero(input_of(m, n, 2))) TRY(optional_tensor(m, n, 2, &beta));
  const struct value *v = input_of(m, n, 0);
  const int32_t axis = axis_of(node_integer(n, "axis", -1), v->rank);
  int64_t length = 1;
  if (axis < 0) return refuse(m, "its axis is not an axis of its input");
  for (int32_t d = axis; d < v->rank; d++) length *= v->dims[d];
  for (int32_t i = 1; i < 3; i++) {
    const struct value *w = input_of(m, n, i);
    int64_t elements = 1;
    for (int32_t d = 0; w != NULL && d < w->rank; d++) elements *= w->dims[d];
    if (w != NULL && elements != length)
      return refuse(m, "its scale or bias does not fit the axes that it normalises");
  }
  for (int32_t i = 1; i < n->output_count; i++)
    if (n->outputs[i][0] != '\0') return refuse(m, "its mean and deviation as outputs are not supported");
  const struct row_norm_attributes a = {length, 1, 1, node_real(n, "epsilon", 1e-5f), centred};
  return set_output(m, n, 0, builder_row_norm(m->builder, x, a, flat(m, gamma), flat(m, beta)));
}

neap_status import_layer_norm(struct import *m, const struct onnx_node *n) {
  return import_row_norm(m, n, true);
}
neap_status import_rms_norm(struct import *m, const struct onnx_node *n) {
  return import_row_norm(m, n, false);
}

/* Gives a scale or an offset for each channel: as it is, or that of each channel's group, as in
 * GroupNormalization before opset 21. */
static neap_tensor by_channel(struct import *m, neap_tensor x, const struct value *v, int64_t groups,
                              int64_t channels) {
  if (v->dims[0] == channels) return x;
  const neap_tensor column = neap_reshape(m->builder, x, 2, (int64_t[]){groups, 1}),
                    each = neap_expand(m->builder, column, 2, (int64_t[]){groups, channels / groups});
  return neap_reshape(m->builder, each, 1, &channels);
}

/* Reads a norm over groups of channels, with a scale and an offset for each channel, or for each group. */
static neap_status import_groups(struct import *m, const struct onnx_node *n, int64_t groups, bool by_group) {
  neap_tensor x, gamma, beta;
  TRY(tensor_of(m, n, 0, &x));
  TRY(tensor_of(m, n, 1, &gamma));
  TRY(tensor_of(m, n, 2, &beta));
  const struct value *v = input_of(m, n, 0);
  int64_t inner = 1;
  if (v->rank < 3) return refuse(m, "its input has no pixels");
  if (groups == 0) groups = v->dims[1];
  for (int32_t d = 2; d < v->rank; d++) inner *= v->dims[d];
  for (int32_t i = 1; i < 3; i++)
    if (groups < 1 || v->dims[1] % groups != 0 || input_of(m, n, i)->rank != 1 ||
        input_of(m, n, i)->dims[0] != (by_group ? groups : v->dims[1]))
      return refuse(m, "its groups, scale or bias do not fit its channels");
  const struct row_norm_attributes a = {v->dims[1] / groups * inner, groups, inner,
                                        node_real(n, "epsilon", 1e-5f), true};
  gamma = by_channel(m, gamma, input_of(m, n, 1), groups, v->dims[1]);
  beta = by_channel(m, beta, input_of(m, n, 2), groups, v->dims[1]);
  return set_output(m, n, 0, builder_row_norm(m->builder, x, a, gamma, beta));
}

neap_status import_group_norm(struct import *m, const struct onnx_node *n) {
  return import_groups(m, n, node_integer(n, "num_groups", -1), m->file.opset < 21);
}

neap_status import_instance_norm(struct import *m, const struct onnx_node *n) {
  return import_groups(m, n, 0, false);
}

neap_status import_lrn(struct import *m, const struct onnx_node *n) {
  neap_tensor x;
  TRY(tensor_of(m, n, 0, &x));
  neap_response_norm_options o = {.size = node_integer(n, "size", 0), .k = 0};
  TRY(read_positive(m, n, "alpha", 1e-4f, &o.alpha));
  TRY(read_positive(m, n, "beta", 0.75f, &o.beta));
  TRY(read_positive(m, n, "bias", 1, &o.k));
  if (o.size % 2 == 0) return refuse(m, "its size must be odd (got %lld)", (long long)o.size);
  return set_output(m, n, 0, neap_local_response_norm(m->builder, x, o));
}

/* Zeros are drawn in training; evaluation and prediction have no dropout. */
neap_status import_dropout(struct import *m, const struct onnx_node *n) {
  neap_tensor x;
  const struct constant *ratio;
  TRY(tensor_of(m, n, 0, &x));
  TRY(constant_of(m, n, 1, &ratio));
  const float p =
      ratio != NULL && ratio->elements == 1 ? (float)constant_real(ratio, 0) : node_real(n, "ratio", 0.5f);
  if (n->output_count > 1 && n->outputs[1][0] != '\0')
    return refuse(m, "its mask as an output is not supported");
  if (p == 0) return same_value(m, n, input_of(m, n, 0));
  return set_output_rank(m, n, 0, neap_dropout(m->builder, x, p), input_of(m, n, 0)->rank);
}

/* ---- Pooling ---- */

static neap_status read_pool(struct import *m, const struct onnx_node *n, neap_tensor *x,
                             neap_pool_options *o) {
  struct window w;
  TRY(tensor_of(m, n, 0, x));
  TRY(read_window(m, n, NULL, &w));
  if (input_of(m, n, 0)->rank != 4 || w.size[0] != w.size[1] || w.padding[0] != w.padding[1] ||
      w.dilation[1] != 1)
    return refuse(m, "windows must be square, on images, with equal padding and without dilation");
  if (n->output_count > 1 && n->outputs[1][0] != '\0')
    return refuse(m, "indices as an output are not supported");
  *o = (neap_pool_options){.size = w.size[1],
                           .stride = w.stride[1],
                           .padding = w.padding[1],
                           .ceil = node_integer(n, "ceil_mode", 0) != 0,
                           .count_padding = node_integer(n, "count_include_pad", 0) != 0};
  if (o->ceil && o->count_padding)
    return refuse(m, "ceil_mode and count_include_pad together are not supported");
  return NEAP_OK;
}

neap_status import_max_pool(struct import *m, const struct onnx_node *n) {
  neap_tensor x;
  neap_pool_options o;
  TRY(read_pool(m, n, &x, &o));
  return set_output(m, n, 0, neap_max_pool(m->builder, x, o));
}

neap_status import_average_pool(struct import *m, const struct onnx_node *n) {
  neap_tensor x;
  neap_pool_options o;
  TRY(read_pool(m, n, &x, &o));
  return set_output(m, n, 0, neap_average_pool(m->builder, x, o));
}

neap_status import_global_average_pool(struct import *m, const struct onnx_node *n) {
  neap_tensor x;
  int64_t dims[NEAP_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  TRY(tensor_of(m, n, 0, &x));
  const struct value *v = input_of(m, n, 0);
  if (v->rank < 3) return refuse(m, "its input has no pixels");
  memcpy(dims, v->dims, 2 * sizeof *dims);
  return set_output(m, n, 0,
                    neap_reshape(m->builder, neap_global_average_pool(m->builder, x), v->rank, dims));
}

/* Gives the axes that sizes or scales are given for: all, or those of the attribute. */
static neap_status resized_axes(struct import *m, const struct onnx_node *n, int32_t *count,
                                int32_t axes[4]) {
  const struct onnx_attribute *given = onnx_attribute(n, "axes");
  *count = 4;
  for (int32_t i = 0; i < 4; i++) axes[i] = i;
  if (given == NULL) return NEAP_OK;
  *count = (int32_t)given->count;
  for (int32_t i = 0; i < *count && i < 4; i++) {
    const int64_t axis = given->integers[i] + (given->integers[i] < 0 ? 4 : 0);
    if (axis < 0 || axis > 3) return refuse(m, "its axes do not fit an image");
    axes[i] = (int32_t)axis;
  }
  return *count >= 1 && *count <= 4 ? NEAP_OK : refuse(m, "its axes do not fit an image");
}

/* Gives the number of pixels that a scale makes, by the standard's floor of a product in f32. Points are
 * taken at distances of 1 / scale, which is the ratio of the sizes only if nothing is cut off. */
static neap_status scaled_size(struct import *m, int64_t size, float scale, int64_t *pixels) {
  const float exact = (float)size * scale, whole = floorf(exact);
  if (!(whole >= 1 && whole < 1e6f)) return refuse(m, "its sizes or scales do not fit an image");
  if (exact - whole > 1e-5f * exact)
    return refuse(m, "a scale that gives a fractional number of pixels is not supported");
  *pixels = (int64_t)whole;
  return NEAP_OK;
}

/* Reads a bilinear resize of images. */
neap_status import_resize(struct import *m, const struct onnx_node *n) {
  neap_tensor x;
  const struct constant *scales, *sizes;
  TRY(tensor_of(m, n, 0, &x));
  TRY(constant_of(m, n, 2, &scales));
  TRY(constant_of(m, n, 3, &sizes));
  const struct value *v = input_of(m, n, 0);
  const char *place = node_text(n, "coordinate_transformation_mode", "half_pixel");
  const bool corners = strcmp(place, "align_corners") == 0,
             half = strcmp(place, "half_pixel") == 0 || strcmp(place, "pytorch_half_pixel") == 0;
  if (v->rank != 4 || strcmp(node_text(n, "mode", "nearest"), "linear") != 0 || !(corners || half) ||
      node_integer(n, "antialias", 0) != 0)
    return refuse(m, "only images, mode linear, half_pixel or align_corners are supported");
  int32_t count, axes[4];
  TRY(resized_axes(m, n, &count, axes));
  const bool by_size = sizes != NULL && sizes->elements == count,
             by_scale = !by_size && scales != NULL && scales->elements == count;
  if (!by_size && !by_scale) return refuse(m, "its sizes or scales do not fit an image");
  int64_t dims[4];
  memcpy(dims, v->dims, sizeof dims);
  for (int32_t i = 0; i < count; i++) {
    const int32_t d = axes[i];
    int64_t size = by_size ? sizes->integers[i] : 0;
    if (by_scale) TRY(scaled_size(m, v->dims[d], (float)constant_real(scales, i), &size));
    if (size < 1 || size >= 1000000 || (d < 2 && size != v->dims[d] && !(d == 0 && by_size)))
      return refuse(m, "its sizes or scales do not fit an image");
    if (strcmp(place, "pytorch_half_pixel") == 0 && d > 1 && size == 1)
      return refuse(m, "pytorch_half_pixel to one pixel is not supported");
    if (d > 1) dims[d] = size;
  }
  return set_output(m, n, 0, neap_resize(m->builder, x, dims[2], dims[3], corners));
}
