/* Operators of Neap as nodes of ONNX: one row each. */
#include "onnx/onnx_export.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "onnx/onnx_nearest.h"
#include "op/op.h"

struct exporter {
  struct onnx_writer *w;
  const struct export_task *task;
  const char **names; /* of tensors; NULL: not made yet */
  const char *batch;  /* [1]; NULL: not asked for yet */
  const char *input;  /* that has the batch */
};

typedef void write_function(struct exporter *e, const struct node *n);

static const struct tensor *tensor_at(const struct exporter *e, int32_t id) {
  return &e->task->graph->tensors.data[id];
}

/* Returns the first axis that another batch changes; -1: none. */
static int32_t open_axis(const struct exporter *e, int32_t id) {
  const struct tensor *t = tensor_at(e, id),
                      *o = e->task->other != NULL ? &e->task->other->tensors.data[id] : t;
  for (int32_t d = 0; d < t->rank; d++)
    if (t->dims[d] != o->dims[d]) return d;
  return -1;
}

/* ---- Names of values ---- */

static const char *reshaped(struct exporter *e, const char *x, int32_t rank, const int64_t *dims) {
  return NODE(e->w, "Reshape", x, writer_integers_tensor(e->w, rank, dims));
}

/* Reshapes a value to the shape of a tensor. */
static const char *as_shape_of(struct exporter *e, const char *x, int32_t id) {
  const struct tensor *t = tensor_at(e, id);
  int64_t dims[NEAP_MAX_RANK];
  const int32_t open = open_axis(e, id);
  memcpy(dims, t->dims, sizeof dims);
  if (open >= 0) dims[open] = -1;
  return reshaped(e, x, t->rank, dims);
}

static const char *add_variable(struct exporter *e, const struct tensor *t) {
  float *values = region_alloc(&e->w->region, (size_t)t->elements, sizeof *values);
  if (values == NULL) {
    writer_fail(e->w, neap_fail(NEAP_OUT_OF_MEMORY, "'%s': out of memory", t->name));
    return "";
  }
  writer_fail(e->w, e->task->read(e->task->context, t->name, t->elements, values));
  writer_weight(e->w, t->name, t->rank, t->dims, values);
  return t->name;
}

static const char *name_of(struct exporter *e, int32_t id) {
  if (id == NO_TENSOR) return NULL;
  const struct tensor *t = tensor_at(e, id);
  if (e->names[id] != NULL) return e->names[id];
  if (t->view_of >= 0)
    e->names[id] = as_shape_of(e, name_of(e, t->view_of), id);
  else if (t->role == NEAP_ROLE_PARAMETER || t->role == NEAP_ROLE_STATE)
    e->names[id] = add_variable(e, t);
  else
    writer_fail(e->w, neap_fail(NEAP_INTERNAL, "'%s' is read before it is made", t->name));
  return e->names[id] != NULL ? e->names[id] : "";
}

static const char *in(struct exporter *e, const struct node *n, int32_t i) {
  return i < n->input_count ? name_of(e, n->inputs[i]) : NULL;
}

static const struct tensor *of_input(const struct exporter *e, const struct node *n, int32_t i) {
  return tensor_at(e, n->inputs[i]);
}

static void set(struct exporter *e, const struct node *n, const char *name) {
  e->names[n->outputs[0]] = name;
}

static void refuse(struct exporter *e, const struct node *n, const char *problem) {
  writer_fail(e->w, neap_fail(NEAP_UNSUPPORTED, "node '%s' (%s): %s", n->name, node_row(n)->name, problem));
}

/* ---- Parts of nodes ---- */

static const char *number(struct exporter *e, float x) { return writer_number(e->w, x); }

static const char *times(struct exporter *e, const char *x, float factor) {
  return factor == 1 ? x : NODE(e->w, "Mul", x, number(e, factor));
}

static const char *slice(struct exporter *e, const char *x, int64_t axis, int64_t first, int64_t count) {
  const int64_t end = first + count;
  return NODE(e->w, "Slice", x, writer_integers_tensor(e->w, 1, &first),
              writer_integers_tensor(e->w, 1, &end), writer_integers_tensor(e->w, 1, &axis));
}

static const char *transposed(struct exporter *e, const char *x, int32_t rank, const int64_t *order) {
  const char *y = NODE(e->w, "Transpose", x);
  writer_integers(e->w, "perm", rank, order);
  return y;
}

static const char *concat(struct exporter *e, int32_t count, const char *const *parts, int64_t axis) {
  const char *y = writer_node(e->w, "Concat", NULL, count, parts);
  writer_integer(e->w, "axis", axis);
  return y;
}

static const char *ones(struct exporter *e, int64_t count) {
  float *values = region_alloc(&e->w->region, (size_t)count, sizeof *values);
  if (values == NULL) {
    writer_fail(e->w, neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a scale of ones"));
    return "";
  }
  for (int64_t i = 0; i < count; i++) values[i] = 1;
  return writer_reals(e->w, 1, &count, values);
}

/* ---- Layers ---- */

static void window_attributes(struct exporter *e, int64_t stride, int64_t dilation, int64_t top,
                              int64_t left) {
  writer_integers(e->w, "strides", 2, (int64_t[]){stride, stride});
  writer_integers(e->w, "dilations", 2, (int64_t[]){dilation, dilation});
  writer_integers(e->w, "pads", 4, (int64_t[]){top, left, top, left});
}

static void write_conv(struct exporter *e, const struct node *n) {
  const struct conv_attributes *a = &n->attributes.conv;
  const char *addend = in(e, n, CONV_ADDEND), *x = in(e, n, CONV_X), *w = in(e, n, CONV_WEIGHTS),
             *bias = in(e, n, CONV_BIAS), *y = NODE(e->w, "Conv", x, w, bias);
  window_attributes(e, a->stride, a->dilation, a->padding[0], a->padding[1]);
  writer_integer(e->w, "group", a->groups);
  set(e, n, addend != NULL ? NODE(e->w, "Add", y, addend) : y);
}

static void write_conv_transposed(struct exporter *e, const struct node *n) {
  const struct conv_attributes *a = &n->attributes.conv;
  const char *x = in(e, n, 0), *w = in(e, n, 1), *bias = in(e, n, 2),
             *y = NODE(e->w, "ConvTranspose", x, w, bias);
  window_attributes(e, a->stride, 1, a->padding[0], a->padding[1]);
  writer_integers(e->w, "output_padding", 2, (int64_t[]){a->output_padding, a->output_padding});
  set(e, n, y);
}

static void write_linear(struct exporter *e, const struct node *n) {
  const char *x = in(e, n, 0), *w = in(e, n, 1), *bias = in(e, n, 2), *y = NODE(e->w, "Gemm", x, w, bias);
  writer_integer(e->w, "transB", 1);
  set(e, n, y);
}

static const char *swapped(struct exporter *e, const struct node *n, int32_t i, bool swap) {
  const char *x = in(e, n, i);
  int64_t order[NEAP_MAX_RANK];
  const int32_t rank = of_input(e, n, i)->rank;
  if (!swap || rank < 2) return x;
  for (int32_t d = 0; d < rank; d++) order[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
  return transposed(e, x, rank, order);
}

static void write_matmul(struct exporter *e, const struct node *n) {
  const struct matmul_attributes *a = &n->attributes.matmul;
  const char *x = swapped(e, n, 0, a->a_transposed), *y = swapped(e, n, 1, a->b_transposed);
  set(e, n, NODE(e->w, "MatMul", x, y));
}

/* ---- Norms ---- */

static void write_batch_norm(struct exporter *e, const struct node *n) {
  const struct batch_norm_attributes *a = &n->attributes.batch_norm;
  const char *x = in(e, n, NORM_X), *gamma = in(e, n, NORM_GAMMA), *beta = in(e, n, NORM_BETA),
             *mean = in(e, n, NORM_MEAN), *variance = in(e, n, NORM_VARIANCE),
             *y = NODE(e->w, "BatchNormalization", x, gamma, beta, mean, variance);
  writer_real(e->w, "epsilon", a->epsilon);
  writer_real(e->w, "momentum", 1 - a->momentum);
  set(e, n, y);
  if (a->relu || in(e, n, NORM_ADDEND) != NULL) refuse(e, n, "a fused norm cannot be written");
}

/* Normalises rows [-1, length] without scale: centred ones by LayerNormalization, others by the mean of their
 * squares. */
static const char *normalised_rows(struct exporter *e, const char *x, const struct row_norm_attributes *a) {
  const char *rows = reshaped(e, x, 2, (int64_t[]){-1, a->length});
  if (a->centred) {
    const char *scale = ones(e, a->length), *y = NODE(e->w, "LayerNormalization", rows, scale);
    writer_integer(e->w, "axis", -1);
    writer_real(e->w, "epsilon", a->epsilon);
    return y;
  }
  const char *squares = NODE(e->w, "Mul", rows, rows), *mean = NODE(e->w, "ReduceMean", squares);
  writer_integers(e->w, "axes", 1, (int64_t[]){1});
  return NODE(e->w, "Div", rows, NODE(e->w, "Sqrt", NODE(e->w, "Add", mean, number(e, a->epsilon))));
}

/* Writes a norm of rows. A row's scale is that of its channels, which `groups` rows share; `inner` neighbours
 * have the same one. */
static void write_row_norm(struct exporter *e, const struct node *n) {
  const struct row_norm_attributes *a = &n->attributes.row_norm;
  const char *x = in(e, n, 0), *gamma = in(e, n, 1), *beta = in(e, n, 2), *y = normalised_rows(e, x, a);
  const int64_t channels = a->length * a->groups / a->inner, dims[] = {-1, channels, a->inner},
                scale[] = {channels, 1};
  if (gamma != NULL || beta != NULL) y = reshaped(e, y, 3, dims);
  if (gamma != NULL) y = NODE(e->w, "Mul", y, reshaped(e, gamma, 2, scale));
  if (beta != NULL) y = NODE(e->w, "Add", y, reshaped(e, beta, 2, scale));
  set(e, n, as_shape_of(e, y, n->outputs[0]));
}

static void write_response_norm(struct exporter *e, const struct node *n) {
  const struct response_attributes *a = &n->attributes.response;
  const char *y = NODE(e->w, "LRN", in(e, n, 0));
  writer_integer(e->w, "size", a->size);
  writer_real(e->w, "alpha", a->alpha);
  writer_real(e->w, "beta", a->beta);
  writer_real(e->w, "bias", a->k);
  set(e, n, y);
}

/* ---- Pooling and space ---- */

static const char *pooled(struct exporter *e, const char *op, const char *x, int64_t height, int64_t width,
                          int64_t stride_y, int64_t stride_x, int64_t padding) {
  const char *y = NODE(e->w, op, x);
  writer_integers(e->w, "kernel_shape", 2, (int64_t[]){height, width});
  writer_integers(e->w, "strides", 2, (int64_t[]){stride_y, stride_x});
  writer_integers(e->w, "pads", 4, (int64_t[]){padding, padding, padding, padding});
  return y;
}

static void write_pool(struct exporter *e, const struct node *n) {
  const struct pool_attributes *a = &n->attributes.pool;
  const bool most = n->op == OP_MAX_POOL;
  const char *y = pooled(e, most ? "MaxPool" : "AveragePool", in(e, n, 0), a->size, a->size, a->stride,
                         a->stride, a->padding);
  writer_integer(e->w, "ceil_mode", a->ceil);
  if (!most) writer_integer(e->w, "count_include_pad", a->count_padding);
  set(e, n, y);
  if (a->relu || (a->ceil && a->count_padding))
    refuse(e, n, "a fused pool, or ceil with counted padding, cannot be written");
}

static void write_global_pool(struct exporter *e, const struct node *n) {
  const struct tensor *x = of_input(e, n, 0);
  int64_t axes[NEAP_MAX_RANK];
  for (int32_t d = 2; d < x->rank; d++) axes[d - 2] = d;
  const char *y = NODE(e->w, "ReduceMean", in(e, n, 0));
  if (x->rank > 2) writer_integers(e->w, "axes", x->rank - 2, axes);
  writer_integer(e->w, "keepdims", 0);
  set(e, n, x->rank > 2 ? y : in(e, n, 0));
}

static void write_adaptive_pool(struct exporter *e, const struct node *n) {
  const struct tensor *x = of_input(e, n, 0);
  const int64_t size = n->attributes.size, height = x->dims[2] / size, width = x->dims[3] / size;
  if (x->dims[2] % size != 0 || x->dims[3] % size != 0)
    refuse(e, n, "regions of unequal size cannot be written");
  set(e, n, pooled(e, "AveragePool", in(e, n, 0), height, width, height, width, 0));
}

static void write_crop(struct exporter *e, const struct node *n) {
  const struct crop_attributes *a = &n->attributes.crop;
  set(e, n, slice(e, slice(e, in(e, n, 0), 2, a->top, a->height), 3, a->left, a->width));
}

/* Writes a Resize to the sizes of the result; batch and channels are those of the input. */
static const char *resized(struct exporter *e, const struct node *n, const char *mode) {
  const struct tensor *t = tensor_at(e, n->outputs[0]);
  const char *batch = NODE(e->w, "Shape", in(e, n, 0));
  writer_integer(e->w, "end", 2);
  const char *pixels = writer_integers_tensor(e->w, t->rank - 2, &t->dims[2]),
             *sizes = NODE(e->w, "Concat", batch, pixels);
  writer_integer(e->w, "axis", 0);
  const char *y = NODE(e->w, "Resize", in(e, n, 0), NULL, NULL, sizes);
  writer_text(e->w, "mode", mode);
  return y;
}

static void write_nearest(struct exporter *e, const struct node *n, const char *coordinates,
                          const char *rounding) {
  const char *y = resized(e, n, "nearest");
  writer_text(e->w, "coordinate_transformation_mode", coordinates);
  writer_text(e->w, "nearest_mode", rounding);
  set(e, n, y);
}

static void write_resize(struct exporter *e, const struct node *n) {
  const struct resize_attributes *a = &n->attributes.resize;
  const char *y = resized(e, n, "linear");
  writer_text(e->w, "coordinate_transformation_mode", a->align_corners ? "align_corners" : "half_pixel");
  set(e, n, y);
}

/* ---- Element by element ---- */

static void write_plain(struct exporter *e, const struct node *n) {
  static const struct {
    enum op op;
    const char *name;
  } names[] = {{OP_RELU, "Relu"},    {OP_SIGMOID, "Sigmoid"}, {OP_TANH, "Tanh"}, {OP_EXP, "Exp"},
               {OP_LOG, "Log"},      {OP_ERF, "Erf"},         {OP_SQRT, "Sqrt"}, {OP_ADD, "Add"},
               {OP_SUBTRACT, "Sub"}, {OP_MULTIPLY, "Mul"},    {OP_DIVIDE, "Div"}};
  const char *inputs[] = {in(e, n, 0), in(e, n, 1)};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if ((int32_t)names[i].op == n->op)
      set(e, n, writer_node(e->w, names[i].name, NULL, n->input_count, inputs));
}

/* x (1 + erf(x / sqrt 2)) / 2 */
static const char *gelu(struct exporter *e, const char *x) {
  const char *erf = NODE(e->w, "Erf", times(e, x, 0.70710678118654752f));
  return times(e, NODE(e->w, "Mul", x, NODE(e->w, "Add", erf, number(e, 1))), 0.5f);
}

static void write_gelu(struct exporter *e, const struct node *n) { set(e, n, gelu(e, in(e, n, 0))); }

/* Writes GELU by tanh of sqrt(2 / pi) (x + 0.044715 x^3). */
static void write_gelu_tanh(struct exporter *e, const struct node *n) {
  const char *x = in(e, n, 0), *cube = NODE(e->w, "Mul", NODE(e->w, "Mul", x, x), x),
             *inner = NODE(e->w, "Add", x, times(e, cube, 0.044715f)),
             *tanh = NODE(e->w, "Tanh", times(e, inner, 0.79788456080286536f));
  set(e, n, times(e, NODE(e->w, "Mul", x, NODE(e->w, "Add", tanh, number(e, 1))), 0.5f));
}

static const char *silu(struct exporter *e, const char *x) {
  return NODE(e->w, "Mul", x, NODE(e->w, "Sigmoid", x));
}

static void write_silu(struct exporter *e, const struct node *n) { set(e, n, silu(e, in(e, n, 0))); }

static void write_clip(struct exporter *e, const struct node *n) {
  const bool six = n->op == OP_RELU6;
  const float low = six ? 0 : n->attributes.scalar.a, high = six ? 6 : n->attributes.scalar.b;
  const char *x = in(e, n, 0), *least = low > -FLT_MAX ? number(e, low) : NULL,
             *most = high < FLT_MAX ? number(e, high) : NULL;
  set(e, n, NODE(e->w, "Clip", x, least, most));
}

static void write_power(struct exporter *e, const struct node *n) {
  set(e, n, NODE(e->w, "Pow", in(e, n, 0), number(e, n->attributes.scalar.a)));
}

static void write_scale(struct exporter *e, const struct node *n) {
  const char *y = times(e, in(e, n, 0), n->attributes.scalar.a);
  const float offset = n->attributes.scalar.b;
  set(e, n, offset != 0 ? NODE(e->w, "Add", y, number(e, offset)) : y);
}

static void write_gated(struct exporter *e, const struct node *n) {
  const struct tensor *x = of_input(e, n, 0);
  const int64_t half = x->dims[x->rank - 1] / 2, axis = x->rank - 1;
  const char *a = slice(e, in(e, n, 0), axis, 0, half), *b = slice(e, in(e, n, 0), axis, half, half);
  set(e, n,
      n->op == OP_GLU      ? NODE(e->w, "Mul", a, NODE(e->w, "Sigmoid", b))
      : n->op == OP_SWIGLU ? NODE(e->w, "Mul", silu(e, a), b)
                           : NODE(e->w, "Mul", gelu(e, a), b));
}

/* ---- Shapes and sums ---- */

static void write_concat(struct exporter *e, const struct node *n) {
  const char **parts = region_alloc(&e->w->region, (size_t)n->input_count, sizeof *parts);
  if (parts == NULL) {
    writer_fail(e->w, neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a concatenation"));
    return;
  }
  for (int32_t i = 0; i < n->input_count; i++) parts[i] = in(e, n, i);
  set(e, n, concat(e, n->input_count, parts, n->attributes.part.axis));
}

static void write_slice(struct exporter *e, const struct node *n) {
  const struct part_attributes *a = &n->attributes.part;
  const char *addend = in(e, n, 1), *y = slice(e, in(e, n, 0), a->axis, a->first, a->count);
  set(e, n, addend != NULL ? NODE(e->w, "Add", y, addend) : y);
}

static const char *padded(struct exporter *e, const char *x, int32_t rank, int64_t axis, int64_t before,
                          int64_t behind, const char *mode, float value) {
  int64_t pads[2 * NEAP_MAX_RANK] = {0};
  pads[axis] = before;
  pads[rank + axis] = behind;
  const char *y = NODE(e->w, "Pad", x, writer_integers_tensor(e->w, 2 * rank, pads), number(e, value));
  writer_text(e->w, "mode", mode);
  return y;
}

/* Writes indices: of each place, or of those inside with the constant around them. */
static const char *gathered(struct exporter *e, const struct node *n, const char *x) {
  const struct take_attributes *a = &n->attributes.take;
  const struct tensor *t = of_input(e, n, 0);
  int64_t *ids = region_alloc(&e->w->region, (size_t)a->count, sizeof *ids), first = 0, count = 0;
  if (ids == NULL) {
    writer_fail(e->w, neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for indices"));
    return "";
  }
  for (int64_t i = 0; i < a->count; i++) {
    const int64_t id = element_at(place_at(a->places, i), t->dims[a->axis], a->places.border);
    if (id < 0) continue;
    if (count == 0) first = i;
    ids[count++] = id;
  }
  if (count == 0) refuse(e, n, "a border alone cannot be written");
  const char *y = NODE(e->w, "Gather", x, writer_integers_tensor(e->w, (int32_t)count, ids));
  writer_integer(e->w, "axis", a->axis);
  return count == a->count
             ? y
             : padded(e, y, t->rank, a->axis, first, a->count - first - count, "constant", a->value);
}

/* Writes a step of 1 with a border as Pad, or as Tile and Slice; others without one as Slice; nearest pixels
 * as Resize. */
static void write_take(struct exporter *e, const struct node *n) {
  static const char *const modes[] = {
      [BORDER_CONSTANT] = "constant", [BORDER_EDGE] = "edge", [BORDER_REFLECT] = "reflect"};
  const struct take_attributes *a = &n->attributes.take;
  const struct take_places p = a->places;
  const struct tensor *x = of_input(e, n, 0);
  const int64_t size = x->dims[a->axis], axis = a->axis, behind = p.first + a->count - size;
  const char *coordinates, *rounding;
  if (open_axis(e, n->inputs[0]) == axis) refuse(e, n, "records at regular places cannot be written");
  if (p.divisor == 1 && p.step == 1 && p.border >= BORDER_CONSTANT && p.border <= BORDER_REFLECT &&
      p.first <= 0 && behind >= 0 && (p.border != BORDER_REFLECT || (-p.first < size && behind < size))) {
    set(e, n, padded(e, in(e, n, 0), x->rank, axis, -p.first, behind, modes[p.border], a->value));
  } else if (p.divisor == 1 && p.step == 1 && p.border == BORDER_WRAP) {
    const int64_t first = element_at(p.first, size, BORDER_WRAP),
                  whole = (first + a->count + size - 1) / size;
    int64_t repeats[NEAP_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    repeats[axis] = whole;
    const char *y = NODE(e->w, "Tile", in(e, n, 0), writer_integers_tensor(e->w, x->rank, repeats));
    set(e, n, whole * size == a->count ? y : slice(e, y, axis, first, a->count));
  } else if (p.divisor == 1 && p.border == BORDER_NONE) {
    const int64_t last = p.first + (a->count - 1) * p.step, end = p.step > 0 ? last + 1
                                                                  : last > 0 ? last - 1
                                                                             : INT32_MIN;
    set(e, n,
        NODE(e->w, "Slice", in(e, n, 0), writer_integers_tensor(e->w, 1, &p.first),
             writer_integers_tensor(e->w, 1, &end), writer_integers_tensor(e->w, 1, &axis),
             writer_integers_tensor(e->w, 1, &p.step)));
  } else if (nearest_modes(p, size, a->count, &coordinates, &rounding) && axis >= 2) {
    write_nearest(e, n, coordinates, rounding);
  } else {
    set(e, n, gathered(e, n, in(e, n, 0)));
  }
}

static void write_transpose(struct exporter *e, const struct node *n) {
  set(e, n, transposed(e, in(e, n, 0), of_input(e, n, 0)->rank, n->attributes.order.order));
}

/* Returns the batch, which is known when the graph runs. */
static const char *batch_of(struct exporter *e) {
  if (e->batch != NULL) return e->batch;
  e->batch = NODE(e->w, "Shape", e->input);
  writer_integer(e->w, "start", 0);
  writer_integer(e->w, "end", 1);
  return e->batch;
}

/* Writes a shape with an open batch: the axis that grows by 1 in `other`, which has one record more. */
static const char *open_shape(struct exporter *e, const struct node *n, int32_t open) {
  const struct tensor *t = tensor_at(e, n->outputs[0]);
  const char *parts[3];
  int32_t count = 0;
  if (e->task->other->tensors.data[n->outputs[0]].dims[open] != t->dims[open] + 1)
    refuse(e, n, "its shape does not follow from the batch");
  if (open > 0) parts[count++] = writer_integers_tensor(e->w, open, t->dims);
  parts[count++] = batch_of(e);
  if (open + 1 < t->rank)
    parts[count++] = writer_integers_tensor(e->w, t->rank - open - 1, t->dims + open + 1);
  return concat(e, count, parts, 0);
}

static void write_expand(struct exporter *e, const struct node *n) {
  const struct tensor *t = tensor_at(e, n->outputs[0]);
  const int32_t open = open_axis(e, n->outputs[0]);
  const char *shape = open >= 0 ? open_shape(e, n, open) : writer_integers_tensor(e->w, t->rank, t->dims);
  set(e, n, times(e, NODE(e->w, "Expand", in(e, n, 0), shape), n->attributes.expand.scale));
}

static void write_gather(struct exporter *e, const struct node *n) {
  set(e, n, NODE(e->w, "Gather", in(e, n, 0), in(e, n, 1)));
}

static void write_sum(struct exporter *e, const struct node *n) {
  int64_t axes[NEAP_MAX_RANK];
  int32_t count = 0;
  for (int32_t d = 0; d < of_input(e, n, 0)->rank; d++)
    if (n->attributes.axes.axes >> d & 1) axes[count++] = d;
  const char *y = NODE(e->w, "ReduceSum", in(e, n, 0), writer_integers_tensor(e->w, count, axes));
  set(e, n, times(e, y, n->attributes.axes.scale));
}

static void write_softmax(struct exporter *e, const struct node *n) {
  const char *y = NODE(e->w, "Softmax", in(e, n, 0));
  writer_integer(e->w, "axis", n->attributes.part.axis);
  set(e, n, y);
}

/* ---- Attention ---- */

/* Returns the mask of queries by head, [G, H / G, T, S], or of all heads, [T, S]: 0 for keys that a query may
 * see, else minus the largest number. */
static const char *attention_mask(struct exporter *e, const struct attention_attributes *a, int64_t heads,
                                  int64_t groups, int64_t queries, int64_t keys) {
  const bool same = a->patterns.count <= 1;
  const int64_t all = same ? 1 : heads;
  float *mask = region_alloc(&e->w->region, (size_t)(all * queries * keys), sizeof *mask);
  if (mask == NULL) {
    writer_fail(e->w, neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a mask"));
    return "";
  }
  for (int64_t h = 0; h < all; h++)
    for (int64_t i = 0; i < queries; i++)
      for (int64_t j = 0; j < keys; j++)
        mask[(h * queries + i) * keys + j] =
            attention_sees(attention_of_head(&a->patterns, h), a->causal, i + keys - queries, j) ? 0
                                                                                                 : -FLT_MAX;
  const int64_t dims[] = {groups, heads / groups, queries, keys};
  return writer_reals(e->w, same ? 2 : 4, same ? dims + 2 : dims, mask);
}

/* Views heads [N, T, H, D] as [N, G, H / G, T, D], so that those of queries match their keys. */
static const char *by_head(struct exporter *e, const char *x, int64_t heads, int64_t groups, int64_t times_,
                           int64_t depth) {
  static const int64_t order[] = {0, 2, 1, 3};
  return reshaped(e, transposed(e, x, 4, order), 5, (int64_t[]){-1, groups, heads / groups, times_, depth});
}

static void write_attention(struct exporter *e, const struct node *n) {
  const struct attention_attributes *a = &n->attributes.attention;
  const struct tensor *q = of_input(e, n, 0);
  const bool packed = n->input_count < 2 || n->inputs[1] == NO_TENSOR;
  const int64_t depth = q->dims[3], length = q->dims[1],
                groups = packed ? a->key_heads : of_input(e, n, 1)->dims[2],
                heads = packed ? q->dims[2] - 2 * groups : q->dims[2],
                keys = packed ? length : of_input(e, n, 1)->dims[1];
  const char *x = in(e, n, 0), *k = packed ? slice(e, x, 2, heads, groups) : in(e, n, 1),
             *v = packed ? slice(e, x, 2, heads + groups, groups) : in(e, n, 2);
  if (a->cap > 0) refuse(e, n, "attention with capped scores cannot be written");
  for (int32_t i = 3; i < n->input_count; i++)
    if (n->inputs[i] != NO_TENSOR) refuse(e, n, "attention with lengths or positions cannot be written");
  if (packed) x = slice(e, x, 2, 0, heads);
  x = times(e, by_head(e, x, heads, groups, length, depth),
            a->scale != 0 ? a->scale : 1 / sqrtf((float)depth));
  k = transposed(e, by_head(e, k, groups, groups, keys, depth), 5, (int64_t[]){0, 1, 2, 4, 3});
  const char *scores = NODE(e->w, "MatMul", x, k);
  if (a->causal || attention_hides(&a->patterns))
    scores = NODE(e->w, "Add", scores, attention_mask(e, a, heads, groups, length, keys));
  const char *shares = NODE(e->w, "Softmax", scores);
  writer_integer(e->w, "axis", -1);
  const char *y = NODE(e->w, "MatMul", shares, by_head(e, v, groups, groups, keys, depth));
  y = reshaped(e, y, 4, (int64_t[]){-1, heads, length, depth});
  set(e, n, transposed(e, y, 4, (int64_t[]){0, 2, 1, 3}));
}

/* Returns cosines or sines [T, 1, D / 2]. */
static const char *turns(struct exporter *e, const struct node *n, int64_t length, int64_t half, bool sine) {
  const struct rotary_attributes *a = &n->attributes.rotary;
  const double amplitude = rotary_amplitude(&a->scaling);
  float *table = region_alloc(&e->w->region, (size_t)(length * half), sizeof *table);
  if (table == NULL) {
    writer_fail(e->w, neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for rotations"));
    return "";
  }
  for (int64_t t = 0; t < length; t++)
    for (int64_t d = 0; d < half; d++) {
      const double angle =
          (double)(t + a->first) * rotary_frequency(a->base, &a->scaling, n->numbers, 2 * half, d);
      table[t * half + d] = (float)(amplitude * (sine ? sin(angle) : cos(angle)));
    }
  return writer_reals(e->w, 3, (int64_t[]){length, 1, half}, table);
}

static void write_rotary(struct exporter *e, const struct node *n) {
  const struct rotary_attributes *a = &n->attributes.rotary;
  const struct tensor *x = of_input(e, n, 0);
  const int64_t half = (a->width > 0 ? a->width : x->dims[3]) / 2, still = x->dims[3] - 2 * half,
                heads = a->heads > 0 ? a->heads : x->dims[2], rest = x->dims[2] - heads;
  if (n->input_count > ROTARY_POSITION && n->inputs[ROTARY_POSITION] != NO_TENSOR)
    refuse(e, n, "a position that is an input cannot be written");
  const char *whole = in(e, n, 0), *turned = rest > 0 ? slice(e, whole, 2, 0, heads) : whole,
             *c = turns(e, n, x->dims[1], half, false), *s = turns(e, n, x->dims[1], half, true);
  const char *p = slice(e, turned, 3, 0, half), *q = slice(e, turned, 3, half, half);
  const char *first = NODE(e->w, "Sub", NODE(e->w, "Mul", p, c), NODE(e->w, "Mul", q, s)),
             *second = NODE(e->w, "Add", NODE(e->w, "Mul", q, c), NODE(e->w, "Mul", p, s));
  const char *y = still > 0
                      ? concat(e, 3, (const char *[]){first, second, slice(e, turned, 3, 2 * half, still)}, 3)
                      : concat(e, 2, (const char *[]){first, second}, 3);
  set(e, n, rest > 0 ? concat(e, 2, (const char *[]){y, slice(e, whole, 2, heads, rest)}, 2) : y);
}

/* ---- The graph ---- */

static const struct {
  enum op op;
  write_function *write;
} rows[] = {
    {OP_ADAPTIVE_AVERAGE_POOL, write_adaptive_pool},
    {OP_ADD, write_plain},
    {OP_ATTENTION, write_attention},
    {OP_AVERAGE_POOL, write_pool},
    {OP_BATCH_NORM, write_batch_norm},
    {OP_CLIP, write_clip},
    {OP_CONCAT, write_concat},
    {OP_CONV, write_conv},
    {OP_CONV_TRANSPOSED, write_conv_transposed},
    {OP_CROP, write_crop},
    {OP_DIVIDE, write_plain},
    {OP_ERF, write_plain},
    {OP_EXP, write_plain},
    {OP_EXPAND, write_expand},
    {OP_GATHER, write_gather},
    {OP_GEGLU, write_gated},
    {OP_GELU, write_gelu},
    {OP_GELU_TANH, write_gelu_tanh},
    {OP_GLOBAL_AVERAGE_POOL, write_global_pool},
    {OP_GLU, write_gated},
    {OP_LINEAR, write_linear},
    {OP_LOCAL_RESPONSE_NORM, write_response_norm},
    {OP_LOG, write_plain},
    {OP_MATMUL, write_matmul},
    {OP_MAX_POOL, write_pool},
    {OP_MULTIPLY, write_plain},
    {OP_POWER, write_power},
    {OP_RELU, write_plain},
    {OP_RELU6, write_clip},
    {OP_RESIZE, write_resize},
    {OP_ROTARY, write_rotary},
    {OP_ROW_NORM, write_row_norm},
    {OP_SCALE, write_scale},
    {OP_SIGMOID, write_plain},
    {OP_SILU, write_silu},
    {OP_SLICE, write_slice},
    {OP_SOFTMAX, write_softmax},
    {OP_SQRT, write_plain},
    {OP_SUBTRACT, write_plain},
    {OP_SUM, write_sum},
    {OP_SWIGLU, write_gated},
    {OP_TAKE, write_take},
    {OP_TANH, write_plain},
    {OP_TRANSPOSE, write_transpose},
};

static write_function *find_row(int32_t op) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if ((int32_t)rows[i].op == op) return rows[i].write;
  return NULL;
}

/* Returns one number for each channel of images, or for each element of rows. */
static const char *numbers(struct exporter *e, const float *values, int64_t count, int32_t rank) {
  const int64_t of_channels[] = {count, 1, 1};
  return writer_reals(e->w, rank == 4 ? 3 : 1, of_channels, values);
}

static void open_dims(const struct exporter *e, int32_t id, int64_t dims[NEAP_MAX_RANK]) {
  const int32_t open = open_axis(e, id);
  memcpy(dims, tensor_at(e, id)->dims, NEAP_MAX_RANK * sizeof *dims);
  if (open >= 0) dims[open] = -1;
}

/* Adds a node for an operation that Neap itself applies to data. */
static const char *data_node(struct exporter *e, const char *op, const char *x, const char *by) {
  const char *y = NODE(e->w, op, x, by);
  writer_prefix(e->w, ONNX_DATA_NODE);
  return y;
}

static void add_inputs(struct exporter *e) {
  const struct normalisation *s = &e->task->of_input;
  for (size_t t = 0; t < e->task->graph->tensors.count; t++) {
    const struct tensor *x = tensor_at(e, (int32_t)t);
    int64_t dims[NEAP_MAX_RANK];
    if (x->role != NEAP_ROLE_INPUT || x->view_of >= 0) continue;
    open_dims(e, (int32_t)t, dims);
    writer_input(e->w, x->name, x->dtype == NEAP_I32 ? ONNX_I64 : ONNX_F32, x->rank, dims);
    e->names[t] = x->name;
    if (e->input == NULL) e->input = x->name;
    if (s->count == 0 || strcmp(x->name, e->task->input) != 0) continue;
    const char *y = data_node(e, "Sub", x->name, numbers(e, s->mean, s->count, x->rank));
    e->names[t] = data_node(e, "Div", y, numbers(e, s->deviation, s->count, x->rank));
  }
}

/* Adds outputs with the names that Neap reads them by. */
static void add_outputs(struct exporter *e) {
  const struct normalisation *s = &e->task->of_output;
  for (size_t i = 0; i < e->task->graph->outputs.count; i++) {
    const struct graph_output *o = &e->task->graph->outputs.data[i];
    int64_t dims[NEAP_MAX_RANK];
    const char *x = name_of(e, o->tensor);
    if (s->count > 0) {
      x = data_node(e, "Mul", x, numbers(e, s->deviation, s->count, 2));
      x = data_node(e, "Add", x, numbers(e, s->mean, s->count, 2));
    }
    writer_node(e->w, "Identity", o->name, 1, &x);
    open_dims(e, o->tensor, dims);
    writer_output(e->w, o->name, ONNX_F32, tensor_at(e, o->tensor)->rank, dims);
  }
}

neap_status onnx_export(struct onnx_writer *w, const struct export_task *task) {
  struct exporter e = {.w = w, .task = task};
  const struct neap_graph *graph = task->graph;
  RETURN_IF(task->other != NULL && (task->other->tensors.count != graph->tensors.count ||
                                    task->other->nodes.count != graph->nodes.count),
            NEAP_INTERNAL, "graph '%s' differs between two batches", graph->name);
  e.names = region_alloc(&w->region, graph->tensors.count + 1, sizeof *e.names);
  RETURN_IF_NULL(e.names);
  add_inputs(&e);
  for (size_t v = 0; w->status == NEAP_OK && v < graph->nodes.count; v++) {
    write_function *write = find_row(graph->nodes.data[v].op);
    if (write != NULL)
      write(&e, &graph->nodes.data[v]);
    else
      refuse(&e, &graph->nodes.data[v], "this operator cannot be written to ONNX files");
  }
  if (w->status == NEAP_OK) add_outputs(&e);
  RETURN_IF(w->status != NEAP_OK, w->status, "%s", w->message);
  return NEAP_OK;
}
