/* Operators computed before training: one row each. */
#include <math.h>
#include <string.h>

#include "onnx/onnx_fold.h"

static neap_status refuse(const struct folding *f, const char *problem) {
  return node_fail(f->file, f->node, NEAP_UNSUPPORTED, "%s", problem);
}

static const struct constant *input(const struct folding *f, int32_t i) {
  return i < f->node->input_count ? f->in[i] : NULL;
}

static neap_status need(const struct folding *f, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (input(f, i) == NULL) return refuse(f, "an input is missing");
  return NEAP_OK;
}

/* ---- Element by element ---- */

/* An operator of one or two numbers, for reals and for integers; NULL: not for these. `truth`: its result is
 * a boolean. */
struct scalar_row {
  const char *op;
  int32_t inputs;
  bool truth;
  double (*real)(double a, double b);
  int64_t (*integer)(int64_t a, int64_t b);
};

#define REAL(name, value)                                                                                    \
  static double real_##name(double a, double b) {                                                            \
    (void)a, (void)b;                                                                                        \
    return value;                                                                                            \
  }
#define INTEGER(name, value)                                                                                 \
  static int64_t integer_##name(int64_t a, int64_t b) {                                                      \
    (void)a, (void)b;                                                                                        \
    return value;                                                                                            \
  }
#define BOTH(name, value) REAL(name, value) INTEGER(name, value)
#define WRAP(a, op, b)    ((int64_t)((uint64_t)(a)op(uint64_t)(b)))

/* clang-format off */
BOTH(max, a > b ? a : b)
BOTH(min, a < b ? a : b)
BOTH(equal, a == b)
BOTH(less, a < b)
BOTH(less_equal, a <= b)
BOTH(greater, a > b)
BOTH(greater_equal, a >= b)
BOTH(sign, a > 0 ? 1 : a < 0 ? -1 : 0)
REAL(add, a + b)
REAL(sub, a - b)
REAL(mul, a * b)
REAL(div, a / b)
REAL(mod, a - b * floor(a / b))
REAL(pow, pow(a, b))
REAL(neg, -a)
REAL(abs, fabs(a))
REAL(sqrt, sqrt(a))
REAL(reciprocal, 1 / a)
REAL(floor, floor(a))
REAL(ceil, ceil(a))
REAL(exp, exp(a))
REAL(log, log(a))
REAL(sin, sin(a))
REAL(cos, cos(a))
REAL(erf, erf(a))
REAL(tanh, tanh(a))
REAL(is_nan, a != a)
INTEGER(add, WRAP(a, +, b))
INTEGER(sub, WRAP(a, -, b))
INTEGER(mul, WRAP(a, *, b))
INTEGER(div, b == 0 || (b == -1 && a == INT64_MIN) ? 0 : a / b)
INTEGER(mod, b == 0 || b == -1 ? 0 : a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b)
INTEGER(and, a != 0 && b != 0)
INTEGER(or, a != 0 || b != 0)
INTEGER(xor, (a != 0) != (b != 0))
INTEGER(not, a == 0)
INTEGER(neg, WRAP(0, -, a))
INTEGER(abs, a < 0 ? WRAP(0, -, a) : a)
/* clang-format on */

/* Returns a power of integers; a negative one is 0, except of 1. */
static int64_t integer_pow(int64_t a, int64_t b) {
  int64_t y = 1;
  if (b < 0) return a == 1;
  for (; b > 0; b >>= 1, a = WRAP(a, *, a))
    if (b & 1) y = WRAP(y, *, a);
  return y;
}

static const struct scalar_row scalar_rows[] = {
    {"Add", 2, false, real_add, integer_add},
    {"Sub", 2, false, real_sub, integer_sub},
    {"Mul", 2, false, real_mul, integer_mul},
    {"Div", 2, false, real_div, integer_div},
    {"Mod", 2, false, real_mod, integer_mod},
    {"Pow", 2, false, real_pow, integer_pow},
    {"Max", 2, false, real_max, integer_max},
    {"Min", 2, false, real_min, integer_min},
    {"Equal", 2, true, real_equal, integer_equal},
    {"Less", 2, true, real_less, integer_less},
    {"LessOrEqual", 2, true, real_less_equal, integer_less_equal},
    {"Greater", 2, true, real_greater, integer_greater},
    {"GreaterOrEqual", 2, true, real_greater_equal, integer_greater_equal},
    {"And", 2, true, NULL, integer_and},
    {"Or", 2, true, NULL, integer_or},
    {"Xor", 2, true, NULL, integer_xor},
    {"Not", 1, true, NULL, integer_not},
    {"Neg", 1, false, real_neg, integer_neg},
    {"Abs", 1, false, real_abs, integer_abs},
    {"Sqrt", 1, false, real_sqrt, NULL},
    {"Reciprocal", 1, false, real_reciprocal, NULL},
    {"Floor", 1, false, real_floor, NULL},
    {"Ceil", 1, false, real_ceil, NULL},
    {"Exp", 1, false, real_exp, NULL},
    {"Log", 1, false, real_log, NULL},
    {"Sin", 1, false, real_sin, NULL},
    {"Cos", 1, false, real_cos, NULL},
    {"Erf", 1, false, real_erf, NULL},
    {"Tanh", 1, false, real_tanh, NULL},
    {"IsNaN", 1, true, real_is_nan, NULL},
    {"Sign", 1, false, real_sign, integer_sign},
};

static const struct scalar_row *find_scalar(const char *op) {
  for (size_t i = 0; i < sizeof scalar_rows / sizeof *scalar_rows; i++)
    if (strcmp(scalar_rows[i].op, op) == 0) return &scalar_rows[i];
  return NULL;
}

/* Gives the elements of `c` in a longer shape. */
static neap_status spread(const struct folding *f, const struct constant *c, int32_t rank,
                          const int64_t *dims, struct constant **out) {
  int64_t own[NEAP_MAX_RANK], strides[NEAP_MAX_RANK] = {0};
  strides_of(c->rank, c->dims, own);
  for (int32_t d = 0; d < c->rank; d++)
    if (c->dims[d] != 1) strides[rank - c->rank + d] = own[d];
  return constant_take(f->pool, c, rank, dims, 0, strides, out);
}

static int64_t to_type(int32_t type, int64_t x) {
  return type == ONNX_BOOL  ? x != 0
         : type == ONNX_I32 ? (int32_t)x
         : type == ONNX_U8  ? (uint8_t)x
         : type == ONNX_I8  ? (int8_t)x
                            : x;
}

static double to_float(int32_t type, double x) { return type == ONNX_F64 ? x : (double)(float)x; }

static neap_status fold_scalar_of(struct folding *f, const struct scalar_row *row, const struct constant *x,
                                  const struct constant *y, struct constant **out) {
  int32_t rank;
  int64_t dims[NEAP_MAX_RANK];
  struct constant *a, *b, *z;
  if (!broadcast_dims(x->rank, x->dims, y->rank, y->dims, &rank, dims))
    return refuse(f, "the shapes of its inputs do not broadcast");
  if ((x->reals != NULL) != (y->reals != NULL)) return refuse(f, "its inputs have different types");
  if (x->reals != NULL ? row->real == NULL : row->integer == NULL)
    return refuse(f, "this type of elements is not supported");
  TRY(spread(f, x, rank, dims, &a));
  TRY(spread(f, y, rank, dims, &b));
  TRY(constant_create(f->pool, row->truth ? ONNX_BOOL : x->type, rank, dims, &z));
  for (int64_t i = 0; i < z->elements; i++) {
    if (a->integers != NULL)
      z->integers[i] = to_type(z->type, row->integer(a->integers[i], b->integers[i]));
    else if (row->truth)
      z->integers[i] = row->real(a->reals[i], b->reals[i]) != 0;
    else
      z->reals[i] = to_float(z->type, row->real(a->reals[i], b->reals[i]));
  }
  *out = z;
  return NEAP_OK;
}

/* Computes an operator; Max and Min take any number of tensors. */
static neap_status fold_scalar(struct folding *f) {
  const struct scalar_row *row = find_scalar(f->node->op);
  const int32_t count = f->node->input_count;
  TRY(need(f, row->inputs == 2 && count < 2 && row->real != real_max && row->real != real_min ? 2 : 1));
  if (node_integer(f->node, "fmod", 0) != 0) return refuse(f, "fmod 1 is not supported");
  if (row->inputs == 1) return fold_scalar_of(f, row, input(f, 0), input(f, 0), &f->out[0]);
  struct constant *y;
  TRY(spread(f, input(f, 0), input(f, 0)->rank, input(f, 0)->dims, &y));
  for (int32_t i = 1; i < count; i++) {
    TRY(need(f, i + 1));
    TRY(fold_scalar_of(f, row, y, input(f, i), &y));
  }
  f->out[0] = y;
  return NEAP_OK;
}

static neap_status convert(struct folding *f, int32_t type) {
  const struct constant *x = input(f, 0);
  if (strcmp(onnx_type_name(type), onnx_type_name(0)) == 0)
    return refuse(f, "it casts to an unsupported type");
  TRY(constant_create(f->pool, type, x->rank, x->dims, &f->out[0]));
  for (int64_t i = 0; i < x->elements; i++)
    if (f->out[0]->reals != NULL)
      f->out[0]->reals[i] = to_float(type, constant_real(x, i));
    else
      f->out[0]->integers[i] =
          type == ONNX_BOOL && x->reals != NULL ? x->reals[i] != 0 : to_type(type, constant_integer(x, i));
  return NEAP_OK;
}

static neap_status fold_cast(struct folding *f) {
  TRY(need(f, 1));
  return convert(f, (int32_t)node_integer(f->node, "to", 0));
}

static neap_status fold_cast_like(struct folding *f) {
  TRY(need(f, 2));
  return convert(f, input(f, 1)->type);
}

static neap_status fold_where(struct folding *f) {
  int32_t rank;
  int64_t dims[NEAP_MAX_RANK];
  struct constant *c, *x, *y;
  TRY(need(f, 3));
  const struct constant *const *in = f->in;
  if (!broadcast_dims(in[0]->rank, in[0]->dims, in[1]->rank, in[1]->dims, &rank, dims) ||
      !broadcast_dims(rank, dims, in[2]->rank, in[2]->dims, &rank, dims) || in[0]->integers == NULL ||
      (in[1]->reals != NULL) != (in[2]->reals != NULL))
    return refuse(f, "the types of its inputs do not match");
  TRY(spread(f, in[0], rank, dims, &c));
  TRY(spread(f, in[1], rank, dims, &x));
  TRY(spread(f, in[2], rank, dims, &y));
  for (int64_t i = 0; i < c->elements; i++) {
    if (c->integers[i] != 0) continue;
    if (x->reals != NULL)
      x->reals[i] = y->reals[i];
    else
      x->integers[i] = y->integers[i];
  }
  f->out[0] = x;
  return NEAP_OK;
}

/* ---- Shapes ---- */

static neap_status reshaped(struct folding *f, int32_t rank, const int64_t *dims) {
  int64_t strides[NEAP_MAX_RANK];
  strides_of(rank, dims, strides);
  return constant_take(f->pool, input(f, 0), rank, dims, 0, strides, &f->out[0]);
}

static neap_status fold_identity(struct folding *f) {
  TRY(need(f, 1));
  return reshaped(f, input(f, 0)->rank, input(f, 0)->dims);
}

static neap_status fold_reshape(struct folding *f) {
  int64_t dims[NEAP_MAX_RANK];
  const struct constant *wanted;
  TRY(need(f, 1));
  TRY(node_integers(f->pool, f->node, "shape", input(f, 1), &wanted));
  if (wanted == NULL) return refuse(f, "its shape is missing");
  TRY(reshape_dims(f->file, f->node, input(f, 0)->rank, input(f, 0)->dims, wanted, dims));
  return reshaped(f, (int32_t)wanted->elements, dims);
}

static neap_status fold_squeeze(struct folding *f) {
  const struct constant *axes, *x = input(f, 0);
  int64_t dims[NEAP_MAX_RANK];
  int32_t rank = 0;
  unsigned gone = 0;
  TRY(need(f, 1));
  TRY(node_integers(f->pool, f->node, "axes", input(f, 1), &axes));
  for (int64_t i = 0; axes != NULL && i < axes->elements; i++) {
    const int32_t axis = axis_of(constant_integer(axes, i), x->rank);
    if (axis < 0 || x->dims[axis] != 1) return refuse(f, "one of its axes does not have 1 element");
    gone |= 1u << axis;
  }
  for (int32_t d = 0; d < x->rank; d++)
    if (axes != NULL ? !(gone >> d & 1) : x->dims[d] != 1) dims[rank++] = x->dims[d];
  return reshaped(f, rank, dims);
}

static neap_status fold_unsqueeze(struct folding *f) {
  const struct constant *axes, *x = input(f, 0);
  int64_t dims[NEAP_MAX_RANK];
  unsigned made = 0;
  TRY(need(f, 1));
  TRY(node_integers(f->pool, f->node, "axes", input(f, 1), &axes));
  const int64_t rank = x->rank + (axes != NULL ? axes->elements : 0);
  if (axes == NULL || rank > NEAP_MAX_RANK) return refuse(f, "its axes are missing or too many");
  for (int64_t i = 0; i < axes->elements; i++) {
    const int32_t axis = axis_of(constant_integer(axes, i), (int32_t)rank);
    if (axis < 0 || made >> axis & 1) return refuse(f, "its axes are invalid");
    made |= 1u << axis;
  }
  for (int32_t d = 0, from = 0; d < rank; d++) dims[d] = made >> d & 1 ? 1 : x->dims[from++];
  return reshaped(f, (int32_t)rank, dims);
}

static neap_status fold_transpose(struct folding *f) {
  const struct onnx_attribute *order = onnx_attribute(f->node, "perm");
  const struct constant *x = input(f, 0);
  int64_t dims[NEAP_MAX_RANK], own[NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
  TRY(need(f, 1));
  if (order != NULL && order->count != x->rank) return refuse(f, "perm does not fit its input");
  strides_of(x->rank, x->dims, own);
  for (int32_t d = 0; d < x->rank; d++) {
    const int32_t from = order != NULL ? axis_of(order->integers[d], x->rank) : x->rank - 1 - d;
    if (from < 0) return refuse(f, "perm does not fit its input");
    dims[d] = x->dims[from];
    strides[d] = own[from];
  }
  return constant_take(f->pool, x, x->rank, dims, 0, strides, &f->out[0]);
}

static neap_status fold_expand(struct folding *f) {
  int64_t dims[NEAP_MAX_RANK];
  int32_t rank;
  TRY(need(f, 2));
  const struct constant *x = input(f, 0), *wanted = input(f, 1);
  if (wanted->integers == NULL || wanted->elements > NEAP_MAX_RANK ||
      !broadcast_dims(x->rank, x->dims, (int32_t)wanted->elements, wanted->integers, &rank, dims))
    return refuse(f, "its shape does not fit its input");
  return spread(f, x, rank, dims, &f->out[0]);
}

static void copy_elements(struct constant *to, int64_t at, const struct constant *from, int64_t first,
                          int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (to->reals != NULL)
      to->reals[at + i] = from->reals[first + i];
    else
      to->integers[at + i] = from->integers[first + i];
}

static neap_status fold_tile(struct folding *f) {
  TRY(need(f, 2));
  const struct constant *x = input(f, 0), *repeats = input(f, 1);
  int64_t dims[NEAP_MAX_RANK], own[NEAP_MAX_RANK], index[NEAP_MAX_RANK] = {0};
  if (repeats->integers == NULL || repeats->elements != x->rank)
    return refuse(f, "its repeats do not fit its input");
  for (int32_t d = 0; d < x->rank; d++)
    if (__builtin_mul_overflow(x->dims[d], repeats->integers[d], &dims[d]) || dims[d] < 0)
      return refuse(f, "its repeats are invalid");
  strides_of(x->rank, x->dims, own);
  TRY(constant_create(f->pool, x->type, x->rank, dims, &f->out[0]));
  for (int64_t i = 0; i < f->out[0]->elements; i++) {
    int64_t at = 0;
    for (int32_t d = 0; d < x->rank; d++) at += index[d] % x->dims[d] * own[d];
    copy_elements(f->out[0], i, x, at, 1);
    for (int32_t d = x->rank - 1; d >= 0 && ++index[d] == dims[d]; d--) index[d] = 0;
  }
  return NEAP_OK;
}

static neap_status fold_slice(struct folding *f) {
  const struct constant *x = input(f, 0), *parts[4] = {0};
  static const char *const names[] = {"starts", "ends", "axes", "steps"};
  struct slices s;
  int64_t strides[NEAP_MAX_RANK], first = 0;
  TRY(need(f, 1));
  for (int32_t i = 0; i < 4; i++) TRY(node_integers(f->pool, f->node, names[i], input(f, i + 1), &parts[i]));
  TRY(slices_of(f->file, f->node, x->rank, x->dims, parts, &s));
  strides_of(x->rank, x->dims, strides);
  for (int32_t d = 0; d < x->rank; d++) {
    first += s.first[d] * strides[d];
    strides[d] *= s.step[d];
  }
  return constant_take(f->pool, x, x->rank, s.count, first, strides, &f->out[0]);
}

static int64_t product(int32_t first, int32_t end, const int64_t *dims) {
  int64_t count = 1;
  for (int32_t d = first; d < end; d++) count *= dims[d];
  return count;
}

static neap_status fold_concat(struct folding *f) {
  const int32_t count = f->node->input_count;
  TRY(need(f, count > 0 ? count : 1));
  const struct constant *x = input(f, 0);
  const int32_t axis = axis_of(node_integer(f->node, "axis", 0), x->rank);
  if (axis < 0) return refuse(f, "its axis is not an axis of its inputs");
  int64_t dims[NEAP_MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  for (int32_t i = 1; i < count; i++) {
    const struct constant *part = input(f, i);
    bool fits = part->rank == x->rank && (part->reals != NULL) == (x->reals != NULL);
    for (int32_t d = 0; fits && d < x->rank; d++) fits = d == axis || part->dims[d] == x->dims[d];
    if (!fits) return refuse(f, "the shapes of its inputs do not match");
    dims[axis] += part->dims[axis];
  }
  TRY(constant_create(f->pool, x->type, x->rank, dims, &f->out[0]));
  const int64_t outer = product(0, axis, dims);
  int64_t at = 0;
  for (int64_t o = 0; o < outer; o++)
    for (int32_t i = 0; i < count; i++) {
      const int64_t row = product(axis, x->rank, input(f, i)->dims);
      copy_elements(f->out[0], at, input(f, i), o * row, row);
      at += row;
    }
  return NEAP_OK;
}

static neap_status fold_gather(struct folding *f) {
  TRY(need(f, 2));
  const struct constant *x = input(f, 0), *ids = input(f, 1);
  const int32_t axis = axis_of(node_integer(f->node, "axis", 0), x->rank);
  int64_t dims[2 * NEAP_MAX_RANK];
  int32_t rank = 0;
  if (axis < 0 || ids->integers == NULL || x->rank + ids->rank - 1 > NEAP_MAX_RANK)
    return refuse(f, "its axis or indices do not fit its input");
  for (int32_t d = 0; d < axis; d++) dims[rank++] = x->dims[d];
  for (int32_t d = 0; d < ids->rank; d++) dims[rank++] = ids->dims[d];
  for (int32_t d = axis + 1; d < x->rank; d++) dims[rank++] = x->dims[d];
  TRY(constant_create(f->pool, x->type, rank, dims, &f->out[0]));
  const int64_t outer = product(0, axis, x->dims), inner = product(axis + 1, x->rank, x->dims);
  for (int64_t o = 0, at = 0; o < outer; o++)
    for (int64_t i = 0; i < ids->elements; i++, at += inner) {
      const int64_t id = ids->integers[i] < 0 ? ids->integers[i] + x->dims[axis] : ids->integers[i];
      if (id < 0 || id >= x->dims[axis]) return refuse(f, "an index is outside its input");
      copy_elements(f->out[0], at, x, (o * x->dims[axis] + id) * inner, inner);
    }
  return NEAP_OK;
}

/* Without batch dimensions: indices [..., K] of the first K axes. With them: the indices of all records are
 * equal. */
static neap_status fold_gather_nd(struct folding *f) {
  TRY(need(f, 2));
  const struct constant *x = input(f, 0), *ids = input(f, 1);
  const int64_t depth = ids->rank > 0 ? ids->dims[ids->rank - 1] : 0;
  int64_t dims[2 * NEAP_MAX_RANK], strides[NEAP_MAX_RANK];
  int32_t rank = 0;
  if (node_integer(f->node, "batch_dims", 0) != 0)
    return refuse(f, "batch_dims other than 0 is not supported");
  if (ids->integers == NULL || depth < 1 || depth > x->rank ||
      ids->rank - 1 + x->rank - depth > NEAP_MAX_RANK)
    return refuse(f, "its indices do not fit its input");
  for (int32_t d = 0; d + 1 < ids->rank; d++) dims[rank++] = ids->dims[d];
  for (int32_t d = (int32_t)depth; d < x->rank; d++) dims[rank++] = x->dims[d];
  TRY(constant_create(f->pool, x->type, rank, dims, &f->out[0]));
  strides_of(x->rank, x->dims, strides);
  const int64_t inner = product((int32_t)depth, x->rank, x->dims), count = ids->elements / depth;
  for (int64_t i = 0; i < count; i++) {
    int64_t first = 0;
    for (int64_t k = 0; k < depth; k++) {
      int64_t id = ids->integers[i * depth + k];
      if (id < 0) id += x->dims[k];
      if (id < 0 || id >= x->dims[k]) return refuse(f, "an index is outside its input");
      first += id * strides[k];
    }
    copy_elements(f->out[0], i * inner, x, first, inner);
  }
  return NEAP_OK;
}

static neap_status fold_gather_elements(struct folding *f) {
  TRY(need(f, 2));
  const struct constant *x = input(f, 0), *ids = input(f, 1);
  const int32_t axis = axis_of(node_integer(f->node, "axis", 0), x->rank);
  int64_t strides[NEAP_MAX_RANK], index[NEAP_MAX_RANK] = {0};
  bool fits = axis >= 0 && ids->integers != NULL && ids->rank == x->rank;
  for (int32_t d = 0; fits && d < x->rank; d++) fits = d == axis || ids->dims[d] <= x->dims[d];
  if (!fits) return refuse(f, "its axis or indices do not fit its input");
  TRY(constant_create(f->pool, x->type, ids->rank, ids->dims, &f->out[0]));
  strides_of(x->rank, x->dims, strides);
  for (int64_t i = 0; i < ids->elements; i++) {
    const int64_t id = ids->integers[i] < 0 ? ids->integers[i] + x->dims[axis] : ids->integers[i];
    if (id < 0 || id >= x->dims[axis]) return refuse(f, "an index is outside its input");
    int64_t at = id * strides[axis];
    for (int32_t d = 0; d < x->rank; d++) at += d == axis ? 0 : index[d] * strides[d];
    copy_elements(f->out[0], i, x, at, 1);
    for (int32_t d = x->rank - 1; d >= 0 && ++index[d] == ids->dims[d]; d--) index[d] = 0;
  }
  return NEAP_OK;
}

/* ---- Constants from numbers ---- */

static neap_status fold_constant(struct folding *f) {
  const struct onnx_attribute *a = f->node->attributes;
  int64_t one = 1;
  if (f->node->attribute_count != 1) return refuse(f, "it must have exactly one value");
  const bool real = a->kind == ONNX_FLOAT || a->kind == ONNX_FLOATS,
             list = a->kind == ONNX_FLOATS || a->kind == ONNX_INTS;
  if (a->kind == ONNX_TENSOR) return constant_of_tensor(f->pool, f->file, a->tensor, &f->out[0]);
  if (!real && a->kind != ONNX_INT && a->kind != ONNX_INTS)
    return refuse(f, "its kind of value is not supported");
  if (list) one = a->count;
  TRY(constant_create(f->pool, real ? ONNX_F32 : ONNX_I64, list ? 1 : 0, &one, &f->out[0]));
  for (int64_t i = 0; i < one; i++)
    if (real)
      f->out[0]->reals[i] = (double)(list ? a->reals[i] : a->real);
    else
      f->out[0]->integers[i] = list ? a->integers[i] : a->integer;
  return NEAP_OK;
}

static neap_status fold_constant_of_shape(struct folding *f) {
  const struct onnx_attribute *a = onnx_attribute(f->node, "value");
  struct constant *value = NULL;
  TRY(need(f, 1));
  const struct constant *shape = input(f, 0);
  if (shape->integers == NULL || shape->elements > NEAP_MAX_RANK) return refuse(f, "its shape is invalid");
  if (a != NULL && a->kind == ONNX_TENSOR) TRY(constant_of_tensor(f->pool, f->file, a->tensor, &value));
  if (value != NULL && value->elements != 1) return refuse(f, "its value must be one number");
  TRY(constant_create(f->pool, value != NULL ? value->type : ONNX_F32, (int32_t)shape->elements,
                      shape->integers, &f->out[0]));
  for (int64_t i = 0; value != NULL && i < f->out[0]->elements; i++) copy_elements(f->out[0], i, value, 0, 1);
  return NEAP_OK;
}

static neap_status fold_range(struct folding *f) {
  TRY(need(f, 3));
  const struct constant *a = input(f, 0), *b = input(f, 1), *c = input(f, 2);
  if (a->elements != 1 || b->elements != 1 || c->elements != 1)
    return refuse(f, "its inputs must be numbers");
  const double first = constant_real(a, 0), end = constant_real(b, 0), step = constant_real(c, 0);
  const double span = ceil((end - first) / step);
  if (step == 0 || !(span < 1e9)) return refuse(f, "its range does not end");
  const int64_t count = span > 0 ? (int64_t)span : 0;
  TRY(constant_create(f->pool, a->type, 1, &count, &f->out[0]));
  for (int64_t i = 0; i < count; i++)
    if (f->out[0]->reals != NULL)
      f->out[0]->reals[i] = to_float(a->type, first + (double)i * step);
    else
      f->out[0]->integers[i] = WRAP(constant_integer(a, 0), +, WRAP(i, *, constant_integer(c, 0)));
  return NEAP_OK;
}

static neap_status fold_trilu(struct folding *f) {
  TRY(need(f, 1));
  const struct constant *x = input(f, 0);
  const int64_t k = input(f, 1) != NULL && input(f, 1)->elements == 1 ? constant_integer(input(f, 1), 0) : 0;
  const bool upper = node_integer(f->node, "upper", 1) != 0;
  if (x->rank < 2) return refuse(f, "its input must be a matrix");
  TRY(fold_identity(f));
  const int64_t columns = x->dims[x->rank - 1], rows = x->dims[x->rank - 2];
  for (int64_t i = 0; i < x->elements; i++) {
    const int64_t column = i % columns, row = i / columns % rows;
    if (upper ? column - row >= k : column - row <= k) continue;
    if (x->reals != NULL)
      f->out[0]->reals[i] = 0;
    else
      f->out[0]->integers[i] = 0;
  }
  return NEAP_OK;
}

static neap_status fold_cum_sum(struct folding *f) {
  TRY(need(f, 2));
  const struct constant *x = input(f, 0);
  const int32_t axis = input(f, 1)->elements == 1 ? axis_of(constant_integer(input(f, 1), 0), x->rank) : -1;
  if (axis < 0 || node_integer(f->node, "exclusive", 0) != 0 || node_integer(f->node, "reverse", 0) != 0)
    return refuse(
        f, "its axis is not an axis of its input, or it is exclusive or reverse, which is not supported");
  int64_t strides[NEAP_MAX_RANK];
  strides_of(x->rank, x->dims, strides);
  TRY(fold_identity(f));
  for (int64_t i = 0; i < x->elements; i++) {
    if (i / strides[axis] % x->dims[axis] == 0) continue;
    if (x->reals != NULL)
      f->out[0]->reals[i] = to_float(x->type, f->out[0]->reals[i] + f->out[0]->reals[i - strides[axis]]);
    else
      f->out[0]->integers[i] = WRAP(f->out[0]->integers[i], +, f->out[0]->integers[i - strides[axis]]);
  }
  return NEAP_OK;
}

/* Computes sums and products of all elements, which appear in shapes. */
static neap_status fold_reduce(struct folding *f) {
  TRY(need(f, 1));
  const struct constant *x = input(f, 0), *axes;
  TRY(node_integers(f->pool, f->node, "axes", input(f, 1), &axes));
  const bool all = axes == NULL || axes->elements == x->rank || x->rank == 1;
  if (!all) return refuse(f, "a constant can only be reduced over all axes");
  const bool keep = node_integer(f->node, "keepdims", 1) != 0, times = strcmp(f->node->op, "ReduceProd") == 0;
  const int64_t ones[NEAP_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  TRY(constant_create(f->pool, x->type, keep ? x->rank : 0, ones, &f->out[0]));
  double real = times;
  int64_t integer = times;
  for (int64_t i = 0; i < x->elements; i++) {
    if (x->reals != NULL)
      real = times ? real * x->reals[i] : real + x->reals[i];
    else
      integer = times ? WRAP(integer, *, x->integers[i]) : WRAP(integer, +, x->integers[i]);
  }
  if (x->reals != NULL)
    f->out[0]->reals[0] = to_float(x->type, real);
  else
    f->out[0]->integers[0] = integer;
  return NEAP_OK;
}

static const struct {
  const char *op;
  fold_function *fold;
} rows[] = {{"Cast", fold_cast},
            {"CastLike", fold_cast_like},
            {"Concat", fold_concat},
            {"Constant", fold_constant},
            {"ConstantOfShape", fold_constant_of_shape},
            {"CumSum", fold_cum_sum},
            {"Expand", fold_expand},
            {"Gather", fold_gather},
            {"GatherElements", fold_gather_elements},
            {"GatherND", fold_gather_nd},
            {"Identity", fold_identity},
            {"Range", fold_range},
            {"ReduceProd", fold_reduce},
            {"ReduceSum", fold_reduce},
            {"Reshape", fold_reshape},
            {"Slice", fold_slice},
            {"Squeeze", fold_squeeze},
            {"Tile", fold_tile},
            {"Transpose", fold_transpose},
            {"Trilu", fold_trilu},
            {"Unsqueeze", fold_unsqueeze},
            {"Where", fold_where}};

fold_function *fold_find(const char *op) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].op, op) == 0) return rows[i].fold;
  return find_scalar(op) != NULL ? fold_scalar : NULL;
}
