/* Elementwise operators, and softmax. */
#include <math.h>
#include <string.h>

#include "onnx/onnx_fold.h"
#include "onnx/onnx_operators.h"

/* ---- One tensor ---- */

static neap_tensor add(struct import *m, neap_tensor x, neap_tensor y) { return neap_add(m->builder, x, y); }

/* min(x, 0), whose slope at 0 is 1, where that of the ReLU is 0. */
static neap_tensor negative_part(struct import *m, neap_tensor x) {
  return neap_clip(m->builder, x, -INFINITY, 0);
}

/* |x|, whose slope at 0 is 0. */
static neap_tensor absolute(struct import *m, neap_tensor x) {
  return add(m, neap_relu(m->builder, x), neap_relu(m->builder, neap_scale(m->builder, x, -1, 0)));
}

/* alpha (e^min(x / beta, 0) - 1) */
static neap_tensor exponential_part(struct import *m, neap_tensor x, float alpha) {
  const neap_tensor e = neap_exp(m->builder, negative_part(m, x));
  return neap_scale(m->builder, e, alpha, -alpha);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e^(min(x, 0) - max(x, 0))) */
static neap_tensor softplus(struct import *m, neap_tensor x) {
  const neap_tensor positive = neap_relu(m->builder, x),
                    e = neap_exp(m->builder, neap_subtract(m->builder, negative_part(m, x), positive));
  return add(m, positive, neap_log(m->builder, neap_scale(m->builder, e, 1, 1)));
}

/* alpha x + beta, cut to [0, 1], whose slope at 0 and 1 is 0. */
static neap_tensor hard_sigmoid(struct import *m, neap_tensor x, float alpha, float beta) {
  const neap_tensor six = neap_relu6(m->builder, neap_scale(m->builder, x, 6 * alpha, 6 * beta));
  return neap_scale(m->builder, six, 1.0f / 6, 0);
}

/* Sets the output, whose rank is that of the input. */
static neap_status set_like(struct import *m, const struct onnx_node *n, neap_tensor y) {
  return set_output_rank(m, n, 0, y, input_of(m, n, 0)->rank);
}

#define UNARY(id, value)                                                                                     \
  neap_status import_##id(struct import *m, const struct onnx_node *n) {                                     \
    neap_tensor x;                                                                                           \
    TRY(tensor_of(m, n, 0, &x));                                                                             \
    return set_like(m, n, value);                                                                            \
  }

UNARY(abs, absolute(m, x))
UNARY(erf, neap_erf(m->builder, x))
UNARY(exp, neap_exp(m->builder, x))
UNARY(log, neap_log(m->builder, x))
UNARY(neg, neap_scale(m->builder, x, -1, 0))
UNARY(reciprocal, neap_power(m->builder, x, -1))
UNARY(relu, neap_relu(m->builder, x))
UNARY(sigmoid, neap_sigmoid(m->builder, x))
UNARY(softplus, softplus(m, x))
UNARY(softsign, neap_divide(m->builder, x, neap_scale(m->builder, absolute(m, x), 1, 1)))
UNARY(sqrt, neap_sqrt(m->builder, x))
UNARY(tanh, neap_tanh(m->builder, x))
UNARY(mish, neap_multiply(m->builder, x, neap_tanh(m->builder, softplus(m, x))))
UNARY(elu, add(m, neap_relu(m->builder, x), exponential_part(m, x, node_real(n, "alpha", 1))))
UNARY(leaky_relu, add(m, neap_relu(m->builder, x),
                      neap_scale(m->builder, negative_part(m, x), node_real(n, "alpha", 0.01f), 0)))
UNARY(selu, neap_scale(m->builder,
                       add(m, neap_relu(m->builder, x),
                           exponential_part(m, x, node_real(n, "alpha", 1.67326319217681884765625f))),
                       node_real(n, "gamma", 1.05070102214813232421875f), 0))
UNARY(hard_sigmoid, hard_sigmoid(m, x, node_real(n, "alpha", 0.2f), node_real(n, "beta", 0.5f)))
UNARY(hard_swish, neap_multiply(m->builder, x, hard_sigmoid(m, x, 1.0f / 6, 0.5f)))
UNARY(swish, neap_multiply(m->builder, x,
                           neap_sigmoid(m->builder, neap_scale(m->builder, x, node_real(n, "alpha", 1), 0))))
UNARY(gelu, strcmp(node_text(n, "approximate", "none"), "tanh") == 0 ? neap_gelu_tanh(m->builder, x)
                                                                     : neap_gelu(m->builder, x))

neap_status import_identity(struct import *m, const struct onnx_node *n) {
  TRY(need_inputs(m, n, 1));
  return same_value(m, n, input_of(m, n, 0));
}

/* Casts a constant that stays known. */
static neap_status cast_constant(struct import *m, const struct onnx_node *n, const struct constant *c,
                                 int32_t to) {
  const struct onnx_attribute type = {.name = "to", .kind = ONNX_INT, .integer = to};
  const struct onnx_node cast = {.name = n->name,
                                 .op = n->op,
                                 .domain = n->domain,
                                 .input_count = 1,
                                 .output_count = 1,
                                 .attribute_count = 1,
                                 .attributes = &type};
  struct constant *out = NULL;
  struct folding f = {.pool = &m->pool, .file = m->file, .node = &cast, .in = &c, .out = &out};
  TRY(fold_find("Cast")(&f));
  return set_constant(m, n, 0, out);
}

/* Casts; real numbers stay f32, integers i32. */
neap_status import_cast(struct import *m, const struct onnx_node *n) {
  const struct value *x = input_of(m, n, 0);
  int64_t to = node_integer(n, "to", 0);
  TRY(need_inputs(m, n, 1));
  if (strcmp(n->op, "CastLike") == 0) {
    TRY(need_inputs(m, n, 2));
    const struct value *like = input_of(m, n, 1);
    to = like->constant != NULL ? like->constant->type
         : like->weight != NULL ? like->weight->type
                                : (like->integers ? ONNX_I64 : ONNX_F32);
  }
  if (x->constant != NULL) return cast_constant(m, n, x->constant, (int32_t)to);
  const bool same = x->integers ? to == ONNX_I64 || to == ONNX_I32 : to == ONNX_F32 || to == ONNX_F64;
  if (!same)
    return refuse(m, "it casts '%.100s' to %s; computed values must stay float", x->name,
                  onnx_type_name((int32_t)to));
  return same_value(m, n, x);
}

/* A bound that is not given means no bound. */
neap_status import_clip(struct import *m, const struct onnx_node *n) {
  const struct constant *low, *high;
  neap_tensor x;
  TRY(tensor_of(m, n, 0, &x));
  TRY(constant_of(m, n, 1, &low));
  TRY(constant_of(m, n, 2, &high));
  if ((low != NULL && low->elements != 1) || (high != NULL && high->elements != 1))
    return refuse(m, "its bounds must be one number each");
  const float least = low != NULL ? (float)constant_real(low, 0) : node_real(n, "min", -INFINITY),
              most = high != NULL ? (float)constant_real(high, 0) : node_real(n, "max", INFINITY);
  if (!(least <= most))
    return refuse(m, "its lower bound %g is above the upper one, %g", (double)least, (double)most);
  return set_like(
      m, n, least == 0 && most == 6 ? neap_relu6(m->builder, x) : neap_clip(m->builder, x, least, most));
}

/* ---- Two tensors ---- */

typedef neap_tensor binary(neap_builder *b, neap_tensor x, neap_tensor y);

/* Gives input `i` of an operator that broadcasts. */
static neap_status operand_of(struct import *m, const struct onnx_node *n, int32_t i, neap_tensor *x) {
  struct value *v = input_of(m, n, i);
  return v == NULL || v->integers ? tensor_of(m, n, i, x) : broadcast_tensor(m, v, x);
}

static neap_status import_binary(struct import *m, const struct onnx_node *n, binary *make) {
  neap_tensor x, y;
  TRY(operand_of(m, n, 0, &x));
  TRY(operand_of(m, n, 1, &y));
  return set_broadcast(m, n, 0, 2, make(m->builder, x, y));
}

/* Returns true if input `i` is a number that does not change the shape of the other. */
static bool is_number(struct import *m, const struct onnx_node *n, int32_t i, float *number) {
  double real;
  const struct value *other = input_of(m, n, 1 - i);
  if (!number_of(m, n, i, &real) || other == NULL || other->integers) return false;
  *number = (float)real;
  return input_of(m, n, i)->rank <= other->rank;
}

static neap_status scaled(struct import *m, const struct onnx_node *n, int32_t i, float factor,
                          float offset) {
  neap_tensor x;
  TRY(tensor_of(m, n, i, &x));
  return set_output_rank(m, n, 0, neap_scale(m->builder, x, factor, offset), input_of(m, n, i)->rank);
}

neap_status import_add(struct import *m, const struct onnx_node *n) {
  float c;
  TRY(need_inputs(m, n, 2));
  for (int32_t i = 0; i < 2; i++)
    if (is_number(m, n, i, &c)) return scaled(m, n, 1 - i, 1, c);
  return import_binary(m, n, neap_add);
}

neap_status import_sub(struct import *m, const struct onnx_node *n) {
  float c;
  TRY(need_inputs(m, n, 2));
  if (is_number(m, n, 0, &c)) return scaled(m, n, 1, -1, c);
  if (is_number(m, n, 1, &c)) return scaled(m, n, 0, 1, -c);
  return import_binary(m, n, neap_subtract);
}

neap_status import_mul(struct import *m, const struct onnx_node *n) {
  float c;
  TRY(need_inputs(m, n, 2));
  for (int32_t i = 0; i < 2; i++)
    if (is_number(m, n, i, &c)) return scaled(m, n, 1 - i, c, 0);
  return import_binary(m, n, neap_multiply);
}

neap_status import_div(struct import *m, const struct onnx_node *n) {
  float c;
  TRY(need_inputs(m, n, 2));
  if (is_number(m, n, 1, &c) && c != 0) return scaled(m, n, 0, 1 / c, 0);
  return import_binary(m, n, neap_divide);
}

neap_status import_pow(struct import *m, const struct onnx_node *n) {
  neap_tensor x;
  const struct constant *c;
  TRY(tensor_of(m, n, 0, &x));
  TRY(constant_of(m, n, 1, &c));
  if (c == NULL || c->elements != 1 || c->rank > input_of(m, n, 0)->rank)
    return refuse(m, "its exponent must be one number that is known before training");
  const double e = constant_real(c, 0);
  return set_like(m, n,
                  e == 2     ? neap_multiply(m->builder, x, x)
                  : e == 0.5 ? neap_sqrt(m->builder, x)
                             : neap_power(m->builder, x, (float)e));
}

/* Reads Max or Min of a tensor and numbers: a cut on one side. */
static neap_status import_extreme(struct import *m, const struct onnx_node *n, bool most) {
  float c = 0;
  neap_tensor x;
  for (int32_t i = 0; i < 2 && n->input_count == 2; i++) {
    if (!is_number(m, n, i, &c)) continue;
    TRY(tensor_of(m, n, 1 - i, &x));
    return set_output_rank(m, n, 0, neap_clip(m->builder, x, most ? c : -INFINITY, most ? INFINITY : c),
                           input_of(m, n, 1 - i)->rank);
  }
  if (n->input_count == 1) return import_identity(m, n);
  return refuse(m, "it is supported for one tensor and one number");
}

neap_status import_max(struct import *m, const struct onnx_node *n) { return import_extreme(m, n, true); }
neap_status import_min(struct import *m, const struct onnx_node *n) { return import_extreme(m, n, false); }

static neap_status import_total(struct import *m, const struct onnx_node *n, bool mean) {
  neap_tensor y, x;
  TRY(tensor_of(m, n, 0, &y));
  int32_t rank = input_of(m, n, 0)->rank;
  for (int32_t i = 1; i < n->input_count; i++) {
    TRY(tensor_of(m, n, i, &x));
    y = neap_add(m->builder, y, x);
    if (input_of(m, n, i)->rank > rank) rank = input_of(m, n, i)->rank;
  }
  if (mean) y = neap_scale(m->builder, y, 1.0f / (float)n->input_count, 0);
  if (n->input_count == 1 && !mean) return import_identity(m, n);
  return set_output_rank(m, n, 0, y, rank);
}

neap_status import_sum(struct import *m, const struct onnx_node *n) { return import_total(m, n, false); }
neap_status import_mean(struct import *m, const struct onnx_node *n) { return import_total(m, n, true); }

neap_status import_prelu(struct import *m, const struct onnx_node *n) {
  neap_tensor x, slope;
  TRY(tensor_of(m, n, 0, &x));
  TRY(tensor_of(m, n, 1, &slope));
  const neap_tensor negative = neap_multiply(m->builder, negative_part(m, x), slope);
  return set_like(m, n, add(m, neap_relu(m->builder, x), negative));
}

/* ---- Choice ---- */

/* The result of softmax is never NaN if its input is finite, which training checks. */
neap_status import_is_nan(struct import *m, const struct onnx_node *n) {
  struct constant *no;
  TRY(need_inputs(m, n, 1));
  if (!input_of(m, n, 0)->softmax) return refuse(m, "it is supported only after Softmax");
  TRY(constant_create(&m->pool, ONNX_BOOL, 0, NULL, &no));
  return set_constant(m, n, 0, no);
}

static bool all_are(const struct constant *c, bool truth) {
  int64_t i = 0;
  while (i < c->elements && (c->integers[i] != 0) == truth) i++;
  return i == c->elements;
}

/* Returns true if this shape is broadcast to that of the value. */
static bool covers(const struct value *v, int32_t rank, const int64_t *dims) {
  int64_t both[NEAP_MAX_RANK];
  int32_t longest;
  return broadcast_dims(v->rank, v->dims, rank, dims, &longest, both) && longest == v->rank &&
         memcmp(both, v->dims, (size_t)v->rank * sizeof *both) == 0;
}

/* Multiplies x by the mask, or by its complement: 0 or 1. */
static neap_status masked(struct import *m, const struct onnx_node *n, const struct constant *mask, bool kept,
                          neap_tensor x, neap_tensor *y) {
  struct constant *factor;
  neap_tensor t;
  const char *name = region_format(&m->region, "%s.%s", n->name, kept ? "mask" : "contrary");
  RETURN_IF_NULL(name);
  TRY(constant_create(&m->pool, ONNX_F32, mask->rank, mask->dims, &factor));
  for (int64_t i = 0; i < mask->elements; i++) factor->reals[i] = (mask->integers[i] != 0) == kept;
  TRY(constant_tensor(m, name, factor, &t));
  *y = neap_multiply(m->builder, x, t);
  return NEAP_OK;
}

/* The same for a constant, computed before. */
static neap_status masked_constant(struct import *m, const struct onnx_node *n, const struct constant *mask,
                                   bool kept, const struct constant *c, neap_tensor *y) {
  const struct onnx_node where = {
      .name = n->name, .op = "Where", .domain = "", .input_count = 3, .output_count = 1};
  struct constant *zero, *out = NULL;
  const char *name = region_format(&m->region, "%s.filling", n->name);
  RETURN_IF_NULL(name);
  TRY(constant_create(&m->pool, c->type, 0, NULL, &zero));
  const struct constant *in[] = {mask, kept ? c : zero, kept ? zero : c};
  struct folding f = {.pool = &m->pool, .file = m->file, .node = &where, .in = in, .out = &out};
  TRY(fold_find("Where")(&f));
  return constant_tensor(m, name, out, y);
}

/* Adds a tensor of zeros, so that the result also has the shape of the condition. */
neap_status import_where(struct import *m, const struct onnx_node *n) {
  TRY(need_inputs(m, n, 3));
  const struct constant *mask = input_of(m, n, 0)->constant;
  if (mask == NULL || mask->integers == NULL) return refuse(m, "its condition must be known before training");
  for (int32_t i = 1; i < 3; i++) {
    const struct value *v = input_of(m, n, i);
    if (all_are(mask, i == 1) && covers(v, mask->rank, mask->dims) && !v->integers &&
        covers(v, input_of(m, n, 3 - i)->rank, input_of(m, n, 3 - i)->dims))
      return same_value(m, n, v);
  }
  neap_tensor parts[2], x;
  for (int32_t i = 1; i < 3; i++) {
    struct value *v = input_of(m, n, i);
    if (v->constant != NULL) {
      TRY(masked_constant(m, n, mask, i == 1, v->constant, &parts[i - 1]));
      continue;
    }
    TRY(tensor_of(m, n, i, &x));
    TRY(masked(m, n, mask, i == 1, x, &parts[i - 1]));
  }
  return set_broadcast(m, n, 0, 3, neap_add(m->builder, parts[0], parts[1]));
}

/* ---- Softmax ---- */

/* Before opset 13 all axes from the given one on count as one. */
static neap_status softmax_of(struct import *m, const struct onnx_node *n, neap_tensor *y) {
  neap_tensor x;
  TRY(tensor_of(m, n, 0, &x));
  const struct value *v = input_of(m, n, 0);
  const bool old = m->file->opset < 13;
  const int32_t axis = axis_of(node_integer(n, "axis", old ? 1 : -1), v->rank);
  if (axis < 0 || (old && axis != v->rank - 1))
    return refuse(m, "its axis is not an axis of its input%s", old ? ", or not the last one" : "");
  *y = neap_softmax(m->builder, x, axis);
  return NEAP_OK;
}

neap_status import_softmax(struct import *m, const struct onnx_node *n) {
  neap_tensor y;
  TRY(softmax_of(m, n, &y));
  TRY(set_like(m, n, y));
  struct value *v = value_find(m, n->outputs[0]);
  if (v != NULL) v->softmax = true;
  return NEAP_OK;
}

neap_status import_log_softmax(struct import *m, const struct onnx_node *n) {
  neap_tensor y;
  TRY(softmax_of(m, n, &y));
  return set_like(m, n, neap_log(m->builder, y));
}
