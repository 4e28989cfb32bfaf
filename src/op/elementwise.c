/* Operators that work element by element. */
#include "op/builder.h"

/* ---- One tensor ---- */

static const struct attribute_row scalar_attributes[] = {ATTRIBUTE(scalar.a, REAL),
                                                         ATTRIBUTE(scalar.b, REAL)};

/* The number of numbers that an operator takes. */
#define NUMBERS(op) ((op) == OP_CLIP || (op) == OP_SCALE ? 2 : (op) == OP_POWER ? 1 : 0)

enum keeps { KEEPS_X, KEEPS_Y, KEEPS_NOTHING };

static neap_status gradient_unary(struct gradient *g, const struct node *n, enum op backward,
                                  enum keeps keeps) {
  const int32_t dy = g->of[n->outputs[0]];
  if (keeps == KEEPS_NOTHING) return GRADIENT_EMIT(g, backward, n, n->inputs[0], dy);
  return GRADIENT_EMIT(g, backward, n, n->inputs[0], keeps == KEEPS_X ? n->inputs[0] : n->outputs[0], dy);
}

#define IN_PLACE_X       ROW_INPLACE(inplace_later)
#define IN_PLACE_Y       ROW_INPLACE(inplace_later)
#define IN_PLACE_NOTHING ROW_INPLACE(inplace_first)

#define READ_SIGN    .sign = 1
#define READ_EXACT   .exact = 1
#define READ_ROUNDED .exact = 0

#define UNARY(NAME, id, text, about, KEEPS, READS, value, slope)                                             \
  static neap_status gradient_##id(struct gradient *g, const struct node *n) {                               \
    return gradient_unary(g, n, OP_##NAME##_BACKWARD, KEEPS_##KEEPS);                                        \
  }                                                                                                          \
  const struct op_row op_row_##id = {text,                                                                   \
                                     about,                                                                  \
                                     #id,                                                                    \
                                     1,                                                                      \
                                     infer_same,                                                             \
                                     gradient_##id,                                                          \
                                     ROW_INPLACE(inplace_first),                                             \
                                     .attributes = scalar_attributes,                                        \
                                     .attribute_count = NUMBERS(OP_##NAME)};                                 \
  const struct op_row op_row_##id##_backward = {text "Backward",                                             \
                                                "gradient of " text,                                         \
                                                .output_count = 1,                                           \
                                                IN_PLACE_##KEEPS,                                            \
                                                READ_##READS,                                                \
                                                .attributes = scalar_attributes,                             \
                                                .attribute_count = NUMBERS(OP_##NAME)};
#include "op/elementwise_list.h"

/* Defines neap_<id> for an operator without numbers. */
#define SHORT_FORM(id, NAME)                                                                                 \
  neap_tensor neap_##id(neap_builder *b, neap_tensor x) {                                                    \
    return builder_next(b, OP_##NAME, (union attributes){0}, &x, 1);                                         \
  }
SHORT_FORM(relu, RELU)
SHORT_FORM(relu6, RELU6)
SHORT_FORM(gelu, GELU)
SHORT_FORM(gelu_tanh, GELU_TANH)
SHORT_FORM(silu, SILU)
SHORT_FORM(sigmoid, SIGMOID)
SHORT_FORM(tanh, TANH)
SHORT_FORM(exp, EXP)
SHORT_FORM(log, LOG)
SHORT_FORM(erf, ERF)
SHORT_FORM(sqrt, SQRT)

static neap_tensor with_numbers(neap_builder *b, enum op op, neap_tensor x, float first, float second) {
  return builder_next(b, op, (union attributes){.scalar = {first, second}}, &x, 1);
}

neap_tensor neap_power(neap_builder *b, neap_tensor x, float exponent) {
  return with_numbers(b, OP_POWER, x, exponent, 0);
}

neap_tensor neap_clip(neap_builder *b, neap_tensor x, float lowest, float highest) {
  if (builder_ready(b) && !(lowest <= highest))
    return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                                     "Clip to [%g, %g]: the first must not be above the second",
                                     (double)lowest, (double)highest));
  return with_numbers(b, OP_CLIP, x, lowest, highest);
}

neap_tensor neap_scale(neap_builder *b, neap_tensor x, float factor, float offset) {
  return with_numbers(b, OP_SCALE, x, factor, offset);
}

/* ---- ReLU that keeps bits ---- */

const struct op_row op_row_relu_mask = {"ReluMask", "max(0, x), and a bit an element for its gradient",
                                        .output_count = 2, ROW_INPLACE(inplace_first), .split = {1, 3, 0}};
const struct op_row op_row_relu_mask_backward = {"ReluMaskBackward",  "gradient of ReLU from its bits",
                                                 .output_count = 1,   ROW_INPLACE(inplace_second),
                                                 .takes = {TYPE_BIT}, .split = {3, 1, 0}};

/* ---- Two tensors ---- */

/* Dimensions, counted from the last, must be equal, or 1 in one tensor. */
static neap_status infer_binary(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  TRY(need_real(graph, node, -1, "tensors"));
  return infer_broadcast(node, node_input(graph, node, 0), node_input(graph, node, 1), 0, &outputs[0]);
}

static neap_status binary(struct gradient *g, const struct node *n, enum op op, int32_t x, int32_t y,
                          int32_t *out) {
  return gradient_apply(g, op, n->name, (union attributes){0}, (const int32_t[]){x, y}, 2, out);
}

static neap_status negative(struct gradient *g, const struct node *n, int32_t *x) {
  return gradient_apply(g, OP_SCALE, n->name, (union attributes){.scalar = {-1, 0}}, x, 1, x);
}

static neap_status backward_add(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]];
  TRY(gradient_add_reduced(g, n->name, n->inputs[0], dy));
  return gradient_add_reduced(g, n->name, n->inputs[1], dy);
}

static neap_status backward_subtract(struct gradient *g, const struct node *n) {
  int32_t dy = g->of[n->outputs[0]];
  TRY(gradient_add_reduced(g, n->name, n->inputs[0], dy));
  if (!gradient_wanted(g, n->inputs[1])) return NEAP_OK;
  TRY(negative(g, n, &dy));
  return gradient_add_reduced(g, n->name, n->inputs[1], dy);
}

static neap_status backward_multiply(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]];
  for (int i = 0; i < 2; i++) {
    int32_t share;
    if (!gradient_wanted(g, n->inputs[i])) continue;
    TRY(binary(g, n, OP_MULTIPLY, dy, n->inputs[1 - i], &share));
    TRY(gradient_add_reduced(g, n->name, n->inputs[i], share));
  }
  return NEAP_OK;
}

/* d(x / y) / dy = -(x / y) / y */
static neap_status backward_divide(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]];
  int32_t share;
  if (gradient_wanted(g, n->inputs[0])) {
    TRY(binary(g, n, OP_DIVIDE, dy, n->inputs[1], &share));
    TRY(gradient_add_reduced(g, n->name, n->inputs[0], share));
  }
  if (!gradient_wanted(g, n->inputs[1])) return NEAP_OK;
  TRY(binary(g, n, OP_MULTIPLY, dy, n->outputs[0], &share));
  TRY(binary(g, n, OP_DIVIDE, share, n->inputs[1], &share));
  TRY(negative(g, n, &share));
  return gradient_add_reduced(g, n->name, n->inputs[1], share);
}

#define BINARY(NAME, id, text, about, value)                                                                 \
  const struct op_row op_row_##id = {text,                                                                   \
                                     about,                                                                  \
                                     #id,                                                                    \
                                     1,                                                                      \
                                     infer_binary,                                                           \
                                     backward_##id,                                                          \
                                     ROW_INPLACE(inplace_either),                                            \
                                     .any_place = true,                                                      \
                                     .split = {3, 1, 0},                                                     \
                                     .split_of = split_broadcast,                                            \
                                     .exact = OP_##NAME == OP_DIVIDE ? 2 : 0};                               \
  neap_tensor neap_##id(neap_builder *b, neap_tensor x, neap_tensor y) {                                     \
    return builder_next(b, OP_##NAME, (union attributes){0}, (int32_t[]){x, y}, 2);                          \
  }
#include "op/elementwise_list.h"

/* ---- Choice ---- */

static neap_status infer_where(const struct neap_graph *graph, const struct node *node,
                               struct tensor *outputs) {
  const struct tensor *mask = node_input(graph, node, 0), *x = node_input(graph, node, 1),
                      *y = node_input(graph, node, 2), *like = x != NULL ? x : y;
  RETURN_IF(like == NULL, NEAP_INVALID_ARGUMENT, "Where '%s': at least one of the two tensors is needed",
            node->name);
  if (x != NULL && y != NULL) TRY(need_same_shape(node, x, y));
  bool fits = mask->dtype == NEAP_U8 && mask->rank <= like->rank;
  for (int32_t i = 0; fits && i < mask->rank; i++)
    fits = mask->dims[i] == 1 || mask->dims[i] == like->dims[like->rank - mask->rank + i];
  RETURN_IF(!fits, NEAP_INVALID_ARGUMENT,
            "Where '%s': the mask '%s' is %s of %s; it must be of u8 and broadcast to %s of '%s'", node->name,
            mask->name, shape_text(mask).text, dtype_rows[mask->dtype].name, shape_text(like).text,
            like->name);
  outputs[0] = value_like(like);
  return NEAP_OK;
}

/* Each side gets the gradient of the elements that were taken from it, and 0 elsewhere. */
static neap_status gradient_where(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]];
  for (int side = 1; side <= 2; side++) {
    if (!gradient_wanted(g, n->inputs[side])) continue;
    int32_t share, inputs[] = {n->inputs[0], NO_TENSOR, NO_TENSOR};
    inputs[side] = dy;
    TRY(gradient_apply(g, OP_WHERE, n->name, (union attributes){0}, inputs, 3, &share));
    TRY(gradient_add(g, n->inputs[side], share));
  }
  return NEAP_OK;
}

static const struct inplace_pair where_pairs[] = {{0, 1}, {0, 2}};

const struct op_row op_row_where = {"Where",
                                    "one tensor or number where a mask is set, another elsewhere",
                                    "where",
                                    1,
                                    infer_where,
                                    gradient_where,
                                    ROW_INPLACE(where_pairs),
                                    .attributes = scalar_attributes,
                                    .attribute_count = 1, /* the number */
                                    .slots = 3,
                                    .takes = {TYPE_U8},
                                    .split = {7, 1, 0},
                                    .split_of = split_broadcast};

neap_tensor neap_where(neap_builder *b, neap_tensor mask, neap_tensor x, neap_tensor y) {
  return builder_next(b, OP_WHERE, (union attributes){0}, (int32_t[]){mask, x, y}, 3);
}

neap_tensor neap_masked_fill(neap_builder *b, neap_tensor x, neap_tensor mask, float value) {
  return builder_next(b, OP_WHERE, (union attributes){.scalar = {.a = value}},
                      (int32_t[]){mask, NO_TENSOR, x}, 3);
}

/* ---- Types ---- */

static const struct attribute_row cast_attributes[] = {ATTRIBUTE(dtype, INT32)};

static neap_status infer_cast(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  const int32_t dtype = node->attributes.dtype;
  RETURN_IF(!dtype_is_known(dtype) || !dtype_is_real(dtype), NEAP_INVALID_ARGUMENT,
            "Cast '%s': type %d is not a type of real numbers", node->name, dtype);
  outputs[0] = value_like(node_input(graph, node, 0));
  outputs[0].dtype = (neap_dtype)dtype;
  return NEAP_OK;
}

/* The gradient of a cast is a cast back. */
static neap_status gradient_cast(struct gradient *g, const struct node *n) {
  struct node back = *n;
  back.attributes.dtype = (int32_t)g->graph->tensors.data[n->inputs[0]].dtype;
  return GRADIENT_EMIT(g, OP_CAST, &back, n->inputs[0], g->of[n->outputs[0]]);
}

const struct op_row op_row_cast = {"Cast",        "the same elements in another type", "cast", 1, infer_cast,
                                   gradient_cast, ROW_ATTRIBUTES(cast_attributes)};

neap_tensor neap_cast(neap_builder *b, neap_tensor x, neap_dtype dtype) {
  if (builder_ready(b) && !(dtype_is_known(dtype) && type_set_has(TYPES_FLOAT, dtype)))
    return builder_fail(
        b, neap_fail(NEAP_INVALID_ARGUMENT, "Cast: the type must be f32, bf16 or f16 (got %d)", (int)dtype));
  return builder_next(b, OP_CAST, (union attributes){.dtype = (int32_t)dtype}, &x, 1);
}

const struct op_row op_row_stop_gradient = {"StopGradient",
                                            "the same elements; no gradient flows back",
                                            "stop_gradient",
                                            1,
                                            infer_same,
                                            NULL,
                                            ROW_INPLACE(inplace_first),
                                            .evaluation = EVALUATION_IDENTITY,
                                            .split = {1, 1, 0}};

/* ---- Dropout ---- */

static const struct attribute_row dropout_attributes[] = {
    ATTRIBUTE(dropout.probability, REAL),
    {"dropout.stream", ATTRIBUTE_INT32, offsetof(union attributes, dropout.stream), true, 0},
};

static neap_status infer_dropout(const struct neap_graph *graph, const struct node *node,
                                 struct tensor *outputs) {
  const float p = node->attributes.dropout.probability;
  RETURN_IF(!(p >= 0 && p < 1), NEAP_INVALID_ARGUMENT, "Dropout '%s': probability %g is not in [0, 1)",
            node->name, (double)p);
  return infer_same(graph, node, outputs);
}

static neap_status gradient_dropout(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_DROPOUT, n, n->inputs[0], g->of[n->outputs[0]]);
}

const struct op_row op_row_dropout = {"Dropout",
                                      "random zeros from a counter; its own gradient",
                                      "dropout",
                                      1,
                                      infer_dropout,
                                      gradient_dropout,
                                      ROW_INPLACE(inplace_first),
                                      ROW_ATTRIBUTES(dropout_attributes),
                                      .evaluation = EVALUATION_IDENTITY,
                                      .split = {1, 1, 0}};

neap_tensor neap_dropout(neap_builder *b, neap_tensor x, float probability) {
  const union attributes a = {.dropout = {.probability = probability, .stream = builder_stream(b)}};
  return builder_next(b, OP_DROPOUT, a, &x, 1);
}
