/* Layers with weights, norms and pooling. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "onnx/onnx_operators.h"

/* ---- Windows ---- */

/* The window of rows and columns. */
struct window {
  int64_t size[2], stride[2], dilation[2], before[2], behind[2]; /* the last two: padding */
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

/* Pads so that the result is as large as the input over the stride; an odd pixel is `behind` or before. */
static void pad_same(const struct value *x, int32_t axes, bool behind, struct window *w) {
  for (int32_t i = 2 - axes; i < 2; i++) {
    const int64_t size = x->dims[x->rank - 2 + i], count = (size + w->stride[i] - 1) / w->stride[i],
                  whole = (count - 1) * w->stride[i] + (w->size[i] - 1) * w->dilation[i] + 1 - size;
    if (whole <= 0) continue;
    w->before[i] = behind ? whole / 2 : whole - whole / 2;
    w->behind[i] = whole - w->before[i];
  }
}

static neap_status read_padding(struct import *m, const struct onnx_node *n, const struct value *x,
                                int32_t axes, struct window *w) {
  const struct onnx_attribute *pads = onnx_attribute(n, "pads");
  const char *automatic = node_text(n, "auto_pad", "NOTSET");
  if (strncmp(automatic, "SAME_", 5) == 0) {
    pad_same(x, axes, strcmp(automatic, "SAME_UPPER") == 0, w);
    return NEAP_OK;
  }
  if (strcmp(automatic, "NOTSET") != 0 || pads == NULL) return NEAP_OK;
  if (pads->kind != ONNX_INTS || pads->count != 2 * axes) return refuse(m, "pads does not fit its input");
  for (int32_t i = 0; i < axes; i++) {
    const int64_t before = pads->integers[i], behind = pads->integers[axes + i];
    if (before < 0 || before > INT32_MAX || behind < 0 || behind > INT32_MAX)
      return refuse(m, "pads %lld before and %lld behind an axis must be 0 or more", (long long)before,
                    (long long)behind);
    w->before[2 - axes + i] = before;
    w->behind[2 - axes + i] = behind;
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

/* Gives input 0 for a window whose padding counts as `fill`. A Pad before it that does the same becomes part
 * of the window's. */
static neap_status window_input(struct import *m, const struct onnx_node *n, float fill, struct window *w,
                                neap_tensor *x) {
  const struct value *v = input_of(m, n, 0);
  const struct padding *p = v->in_graph ? NULL : v->padding;
  bool alike = p != NULL && p->border == NEAP_BORDER_CONSTANT && v->rank >= 3 &&
               (p->value == fill || (fill < 0 && p->value <= -FLT_MAX));
  for (int32_t d = 0; alike && d < v->rank; d++)
    alike = p->before[d] >= 0 && p->behind[d] >= 0 && (d >= 2 || (p->before[d] == 0 && p->behind[d] == 0));
  if (!alike) return tensor_of(m, n, 0, x);
  *x = p->x;
  for (int32_t d = 2; d < v->rank; d++) {
    w->before[4 - v->rank + d - 2] += p->before[d];
    w->behind[4 - v->rank + d - 2] += p->behind[d];
  }
  return NEAP_OK;
}

/* Pads what lies beyond `kept` rows and columns on all sides, which are left to the window. */
static neap_tensor pad_beyond(struct import *m, neap_tensor x, const struct window *w, float fill,
                              const int64_t kept[2]) {
  const int32_t rank = x < 0 ? 0 : neap_shape(m->builder, x, NULL);
  for (int32_t i = 4 - rank; rank >= 3 && i < 2; i++)
    x = pad_axis(m->builder, x, rank - 2 + i, w->before[i] - kept[i], w->behind[i] - kept[i],
                 NEAP_BORDER_CONSTANT, fill);
  return x;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

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
  TRY(need_inputs(m, n, 1));
  TRY(tensor_of(m, n, 1, &weight));
  const struct value *v = input_of(m, n, 1);
  if (v->rank != input_of(m, n, 0)->rank || v->rank < 3) return refuse(m, "its weights do not fit its input");
  TRY(read_window(m, n, &v->dims[2], &w));
  TRY(window_input(m, n, 0, &w, &x));
  if (!is_zero(input_of(m, n, 2))) TRY(optional_tensor(m, n, 2, &bias));
  const int64_t groups = node_integer(n, "group", 1);
  if (groups < 1) return refuse(m, "group must be 1 or more (got %lld)", (long long)groups);
  const int64_t kept[] = {smaller(w.before[0], w.behind[0]), smaller(w.before[1], w.behind[1])};
  x = pad_beyond(m, x, &w, 0, kept);
  const neap_conv_options o = {.stride = w.stride[1],
                               .dilation = w.dilation[1],
                               .groups = groups,
                               .padding_height = kept[0],
                               .padding_width = kept[1]};
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
  const int64_t kept[] = {smaller(w.before[0], w.behind[0]), smaller(w.before[1], w.behind[1])};
  const union attributes a = {.conv = {.stride = w.stride[1],
                                       .dilation = 1,
                                       .groups = 1,
                                       .padding = {kept[0], kept[1]},
                                       .output_padding = extra[0]}};
  neap_tensor y = builder_next(m->builder, OP_CONV_TRANSPOSED, a, (int32_t[]){x, weight, bias}, 3);
  for (int i = 0; i < 2; i++) /* padding cuts the result */
    y = pad_axis(m->builder, y, 2 + i, kept[i] - w.before[i], kept[i] - w.behind[i], NEAP_BORDER_NONE, 0);
  return set_output(m, n, 0, y);
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
    if (n->outputs[i][0] != '\0' && m->file->opset < 14)
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
  return import_groups(m, n, node_integer(n, "num_groups", -1), m->file->opset < 21);
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

/* Makes the padding behind so wide that the last windows end there: how many windows there are, rounded up,
 * of which the last must begin inside the image or the padding before it. */
static void pad_to_windows(const int64_t pixels[2], struct window *w) {
  for (int i = 0; i < 2; i++) {
    const int64_t room = pixels[i] + w->before[i] + w->behind[i] - w->size[i];
    int64_t more = (room + w->stride[i] - 1) / w->stride[i];
    if (more * w->stride[i] >= pixels[i] + w->before[i]) more--;
    if (room >= 0) w->behind[i] += more * w->stride[i] - room;
  }
}

/* Reads a pool and its input, which is padded where the window cannot do it: with `fill`, and with `unlike`
 * set. `fill` 0 belongs to a mean, in which padding counts with count_include_pad alone. */
static neap_status read_pool(struct import *m, const struct onnx_node *n, float fill, struct window *w,
                             neap_pool_options *o, neap_tensor *x, bool *unlike) {
  TRY(need_inputs(m, n, 1));
  TRY(read_window(m, n, NULL, w));
  if (input_of(m, n, 0)->rank != 4 || w->size[0] != w->size[1] || w->dilation[1] != 1)
    return refuse(m, "windows must be square, on images, without dilation");
  if (n->output_count > 1 && n->outputs[1][0] != '\0')
    return refuse(m, "indices as an output are not supported");
  const bool own = w->before[0] + w->before[1] + w->behind[0] + w->behind[1] > 0;
  *o = (neap_pool_options){.size = w->size[1],
                           .stride = w->stride[1],
                           .ceil = node_integer(n, "ceil_mode", 0) != 0,
                           .count_padding = node_integer(n, "count_include_pad", 0) != 0};
  if (fill == 0 && o->ceil && o->count_padding)
    return refuse(m, "ceil_mode and count_include_pad together are not supported");
  if (fill == 0 && (o->ceil || (own && !o->count_padding)))
    TRY(tensor_of(m, n, 0, x));
  else
    TRY(window_input(m, n, fill, w, x));
  o->count_padding = o->count_padding || (!own && !o->ceil); /* padding that a Pad made counts */
  o->padding = w->before[0];
  *unlike = w->before[0] != w->behind[0] || w->before[0] != w->before[1] || w->before[1] != w->behind[1] ||
            o->padding >= o->size;
  if (!*unlike) return NEAP_OK;
  int64_t dims[NEAP_MAX_RANK] = {0};
  if (*x >= 0) neap_shape(m->builder, *x, dims);
  if (o->ceil) pad_to_windows(&dims[2], w);
  o->ceil = false;
  o->padding = 0;
  *x = pad_beyond(m, *x, w, fill, (int64_t[]){0, 0});
  return NEAP_OK;
}

neap_status import_max_pool(struct import *m, const struct onnx_node *n) {
  struct window w;
  neap_tensor x;
  neap_pool_options o;
  bool unlike;
  TRY(read_pool(m, n, -INFINITY, &w, &o, &x, &unlike));
  o.count_padding = false;
  return set_output(m, n, 0, neap_max_pool(m->builder, x, o));
}

/* Counts the pixels of the image under window `i` of an axis. */
static int64_t covered(const struct window *w, int axis, int64_t i, int64_t pixels) {
  const int64_t first = i * w->stride[axis] - w->before[axis], end = first + w->size[axis];
  return smaller(end, pixels) - (first > 0 ? first : 0);
}

/* Multiplies the means of windows over an image that was padded with zeros, so that only its own pixels
 * count. */
static neap_status count_pixels(struct import *m, const struct onnx_node *n, const struct window *w,
                                neap_tensor *y) {
  const struct value *v = input_of(m, n, 0);
  int64_t dims[NEAP_MAX_RANK] = {0};
  struct constant *factors;
  neap_tensor x;
  if (*y < 0) return NEAP_OK;
  neap_shape(m->builder, *y, dims);
  TRY(constant_create(&m->pool, ONNX_F32, 4, (int64_t[]){1, 1, dims[2], dims[3]}, &factors));
  for (int64_t i = 0; i < factors->elements; i++) {
    const int64_t pixels = covered(w, 0, i / dims[3], v->dims[2]) * covered(w, 1, i % dims[3], v->dims[3]);
    if (pixels < 1) return refuse(m, "a window of it covers padding alone");
    factors->reals[i] = (double)(float)((double)(w->size[0] * w->size[1]) / (double)pixels);
  }
  const char *name = region_format(&m->region, "%s.counts", n->outputs[0]);
  RETURN_IF_NULL(name);
  TRY(constant_tensor(m, name, factors, &x));
  *y = neap_multiply(m->builder, *y, x);
  return NEAP_OK;
}

neap_status import_average_pool(struct import *m, const struct onnx_node *n) {
  struct window w;
  neap_tensor x;
  neap_pool_options o;
  bool unlike;
  TRY(read_pool(m, n, 0, &w, &o, &x, &unlike));
  neap_tensor y = neap_average_pool(m->builder, x, o);
  if (unlike && !o.count_padding) TRY(count_pixels(m, n, &w, &y));
  return set_output(m, n, 0, y);
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
