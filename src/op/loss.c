/* Losses: scalars that training minimises. */
#include "op/builder.h"

/* All other gradients are multiplied by that of a loss: it is not rounded. */
#define EXACT_ALL 0xFF

static const struct attribute_row entropy_attributes[] = {ATTRIBUTE(loss.smoothing, REAL),
                                                          ATTRIBUTE(loss.ignored, INTEGER)};
static const struct attribute_row pair_attributes[] = {ATTRIBUTE_USUAL(loss.beta, REAL, 1),
                                                       ATTRIBUTE(loss.by_target, FLAG)};

/* ---- Cross-entropy ---- */

static neap_status check_smoothing(const struct node *node) {
  const float s = node->attributes.loss.smoothing;
  RETURN_IF(!(s >= 0 && s < 1), NEAP_INVALID_ARGUMENT, "%s '%s': smoothing %g is not in [0, 1)",
            node_row(node)->name, node->name, (double)s);
  return NEAP_OK;
}

/* Losses of evaluation have no smoothing, which is a means of training. */
static void without_smoothing(union attributes *attributes) { attributes->loss.smoothing = 0; }

/* Checks mixed labels: the other labels have the same shape, and each label has a share. */
static neap_status need_other_labels(const struct node *node, const struct tensor *labels,
                                     const struct tensor *others, const struct tensor *shares) {
  RETURN_IF((others == NULL) != (shares == NULL), NEAP_INVALID_ARGUMENT,
            "SoftmaxCrossEntropy '%s': other labels and shares must be given together", node->name);
  RETURN_IF(others != NULL && !same_shape(others, labels), NEAP_INVALID_ARGUMENT,
            "SoftmaxCrossEntropy '%s': the other labels must be %s of i32, but '%s' is %s of %s", node->name,
            shape_text(labels).text, others->name, shape_text(others).text, dtype_rows[others->dtype].name);
  RETURN_IF(shares != NULL && (shares->dtype != NEAP_F32 || shares->elements != labels->elements),
            NEAP_INVALID_ARGUMENT,
            "SoftmaxCrossEntropy '%s': the shares of its labels must be %s of f32, but '%s' is %s of %s",
            node->name, shape_text(labels).text, shares->name, shape_text(shares).text,
            dtype_rows[shares->dtype].name);
  return NEAP_OK;
}

/* Takes logits [N, classes, pixels...] and a label for each [N, pixels...]. */
static neap_status infer_cross_entropy(const struct neap_graph *graph, const struct node *node,
                                       struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0), *y = node_input(graph, node, 1);
  TRY(need_real(graph, node, -2, "logits [N, classes, pixels...]"));
  struct tensor labels = value_of(NEAP_I32, x->rank - 1, x->dims[0], 0);
  for (int32_t i = 1; i < labels.rank; i++) labels.dims[i] = x->dims[i + 1];
  RETURN_IF(!same_shape(y, &labels), NEAP_INVALID_ARGUMENT,
            "SoftmaxCrossEntropy '%s': the labels of '%s' %s must be %s of i32, but '%s' is %s of %s",
            node->name, x->name, shape_text(x).text, shape_text(&labels).text, y->name, shape_text(y).text,
            dtype_rows[y->dtype].name);
  const struct tensor *weights = node_input(graph, node, 2);
  RETURN_IF(weights != NULL && (weights->dtype != NEAP_F32 || weights->elements != x->dims[1]),
            NEAP_INVALID_ARGUMENT,
            "SoftmaxCrossEntropy '%s': the weights of its %lld classes must be [%lld] of f32, but '%s' is %s "
            "of %s",
            node->name, (long long)x->dims[1], (long long)x->dims[1], weights->name, shape_text(weights).text,
            dtype_rows[weights->dtype].name);
  TRY(need_other_labels(node, y, node_input(graph, node, 3), node_input(graph, node, 4)));
  TRY(check_smoothing(node));
  outputs[0] = value_of(NEAP_F32, 1, 1, 0);
  outputs[1] = value_of(NEAP_I32, 1, 1, 0);
  return NEAP_OK;
}

static neap_status gradient_cross_entropy(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_SOFTMAX_CROSS_ENTROPY_BACKWARD, n, n->inputs[0], n->inputs[0], n->inputs[1],
                       g->of[n->outputs[0]], n->inputs[2], n->inputs[3], n->inputs[4]);
}

const struct op_row op_row_softmax_cross_entropy = {"SoftmaxCrossEntropy",
                                                    "fused loss with label smoothing; counts right answers",
                                                    "cross_entropy",
                                                    2,
                                                    infer_cross_entropy,
                                                    gradient_cross_entropy,
                                                    ROW_ATTRIBUTES(entropy_attributes),
                                                    .evaluated = without_smoothing,
                                                    .seeds = true,
                                                    .slots = 5,
                                                    .takes = {[1] = TYPE_I32, TYPE_F32, TYPE_I32, TYPE_F32}};
const struct op_row op_row_softmax_cross_entropy_backward = {
    "SoftmaxCrossEntropyBackward",
    "gradient of the loss by the logits",
    .output_count = 1,
    .slots = 6,
    ROW_INPLACE(inplace_first),
    ROW_ATTRIBUTES(entropy_attributes),
    .takes = {[1] = TYPE_I32, TYPE_F32, TYPE_F32, TYPE_I32, TYPE_F32},
    .exact = EXACT_ALL};

/* The optional inputs of a loss; NO_TENSOR if not given. */
struct loss_inputs {
  neap_tensor weights, others, shares;
};

static neap_tensor cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                 struct loss_inputs more, struct loss_attributes a) {
  if (!builder_usable(b, logits) || !builder_usable(b, labels)) return FAILED;
  char name[2 * NAME_LIMIT];
  builder_name(b, OP_SOFTMAX_CROSS_ENTROPY, name);
  int32_t outputs[2];
  if (builder_apply(b, OP_SOFTMAX_CROSS_ENTROPY, name, (union attributes){.loss = a},
                    (int32_t[]){logits, labels, more.weights, more.others, more.shares}, 5, outputs) < 0)
    return FAILED;
  builder_graph(b)->correct = outputs[1];
  return outputs[0];
}

static const struct loss_inputs none = {NO_TENSOR, NO_TENSOR, NO_TENSOR};

neap_tensor neap_softmax_cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                       float smoothing) {
  return cross_entropy(b, logits, labels, none,
                       (struct loss_attributes){.smoothing = smoothing, .ignored = -1});
}

neap_tensor neap_softmax_cross_entropy_ignoring(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                                float smoothing, int32_t ignored) {
  return cross_entropy(b, logits, labels, none,
                       (struct loss_attributes){.smoothing = smoothing, .ignored = ignored});
}

neap_tensor neap_softmax_cross_entropy_weighted(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                                neap_tensor weights, float smoothing) {
  if (!builder_usable(b, weights)) return FAILED;
  return cross_entropy(b, logits, labels, (struct loss_inputs){weights, NO_TENSOR, NO_TENSOR},
                       (struct loss_attributes){.smoothing = smoothing, .ignored = -1});
}

neap_tensor neap_softmax_cross_entropy_mixed(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                             neap_tensor others, neap_tensor shares, float smoothing) {
  if (!builder_usable(b, others) || !builder_usable(b, shares)) return FAILED;
  return cross_entropy(b, logits, labels, (struct loss_inputs){NO_TENSOR, others, shares},
                       (struct loss_attributes){.smoothing = smoothing, .ignored = -1});
}

/* ---- A linear layer followed by cross-entropy ---- */

static const struct attribute_row linear_entropy_attributes[] = {
    ATTRIBUTE(loss.smoothing, REAL), ATTRIBUTE(loss.ignored, INTEGER), ATTRIBUTE(loss.first, INTEGER),
    ATTRIBUTE(loss.times, INTEGER), ATTRIBUTE(loss.fixed, FLAG)};

static double flops_linear_entropy(const struct neap_graph *graph, const struct node *node) {
  const double products = node->op == OP_LINEAR_CROSS_ENTROPY ? 1 : node->attributes.loss.fixed ? 2 : 3;
  return 2 * products * (double)node_input(graph, node, LOSS_X)->elements *
         (double)node_input(graph, node, LOSS_WEIGHTS)->dims[0];
}

static neap_status infer_linear_entropy(const struct neap_graph *graph, const struct node *node,
                                        struct tensor *outputs) {
  TRY(need_real(graph, node, 2, "rows [N, K]"));
  const struct tensor *x = node_input(graph, node, LOSS_X), *w = node_input(graph, node, LOSS_WEIGHTS),
                      *labels = node_input(graph, node, LOSS_LABELS),
                      *before = node_input(graph, node, LOSS_BEFORE);
  const int64_t first = node->attributes.loss.first;
  RETURN_IF(w->rank != 2 || w->dims[1] != x->dims[1], NEAP_INVALID_ARGUMENT,
            "LinearCrossEntropy '%s': '%s' %s takes weights [classes, %lld], but '%s' is %s", node->name,
            x->name, shape_text(x).text, (long long)x->dims[1], w->name, shape_text(w).text);
  if (!dtype_is_quantised(w->dtype)) TRY(need_same_type(node, x, w));
  TRY(need_bias(node, node_input(graph, node, LOSS_BIAS), x, w->dims[0]));
  RETURN_IF(labels->dtype != NEAP_I32 || labels->rank != 1 || first < 0 ||
                first > labels->dims[0] - x->dims[0],
            NEAP_INVALID_ARGUMENT,
            "LinearCrossEntropy '%s': each of the %lld rows from %lld on needs a label of i32, but '%s' is "
            "%s of %s",
            node->name, (long long)x->dims[0], (long long)first, labels->name, shape_text(labels).text,
            dtype_rows[labels->dtype].name);
  RETURN_IF(before != NULL && (before->elements != 1 || before->dtype == NEAP_I32), NEAP_INVALID_ARGUMENT,
            "LinearCrossEntropy '%s': the tensor to add to must be a loss, but '%s' is %s", node->name,
            before->name, shape_text(before).text);
  TRY(check_smoothing(node));
  outputs[0] = value_of(NEAP_F32, 1, 1, 0);
  outputs[1] = value_of(NEAP_I32, 1, 1, 0);
  outputs[2] = value_of(NEAP_F32, 1, x->dims[0], 0);
  return NEAP_OK;
}

/* The earlier loss gets the gradient of this one. */
static neap_status gradient_of_before(struct gradient *g, const struct node *n) {
  const int32_t before = n->inputs[LOSS_BEFORE];
  int32_t dloss = g->of[n->outputs[0]];
  if (!gradient_wanted(g, before)) return NEAP_OK;
  if (dloss == NO_TENSOR) {
    TRY(graph_add_like(g->graph, before, n->name, &dloss));
    TRY(graph_add_node(g->graph, (struct node){.name = n->name,
                                               .op = OP_FILL,
                                               .pass = NEAP_PASS_BACKWARD,
                                               .attributes.scalar = {.a = 1},
                                               .outputs = &dloss,
                                               .output_count = 1}));
  }
  return gradient_add(g, before, dloss);
}

static neap_status gradient_linear_entropy(struct gradient *g, const struct node *n) {
  const int32_t *in = n->inputs, bias = in[LOSS_BIAS];
  const int32_t inputs[] = {in[LOSS_X], in[LOSS_WEIGHTS], in[LOSS_LABELS],
                            bias,       n->outputs[2],    g->of[n->outputs[0]]};
  const bool fixed = !gradient_wanted(g, in[LOSS_WEIGHTS]);
  union attributes attributes = n->attributes;
  attributes.loss.fixed = fixed;
  int32_t outputs[3], count = 0;
  TRY(graph_add_like(g->graph, in[LOSS_X], "dx", &outputs[count++]));
  if (!fixed) TRY(graph_add_like(g->graph, in[LOSS_WEIGHTS], "dw", &outputs[count++]));
  if (bias != NO_TENSOR) TRY(graph_add_like(g->graph, bias, "dbias", &outputs[count++]));
  TRY(graph_add_node(g->graph, (struct node){.name = n->name,
                                             .op = OP_LINEAR_CROSS_ENTROPY_BACKWARD,
                                             .pass = NEAP_PASS_BACKWARD,
                                             .attributes = attributes,
                                             .inputs = inputs,
                                             .input_count = 6,
                                             .outputs = outputs,
                                             .output_count = count}));
  TRY(gradient_of_before(g, n));
  if (bias != NO_TENSOR) TRY(gradient_add(g, bias, outputs[count - 1]));
  if (!fixed) TRY(gradient_add(g, in[LOSS_WEIGHTS], outputs[1]));
  return gradient_add(g, in[LOSS_X], outputs[0]);
}

const struct op_row op_row_linear_cross_entropy = {
    "LinearCrossEntropy",
    "loss of a linear layer's logits, which are never whole; counts right answers",
    "cross_entropy",
    3,
    infer_linear_entropy,
    gradient_linear_entropy,
    .flops = flops_linear_entropy,
    ROW_ATTRIBUTES(linear_entropy_attributes),
    .evaluated = without_smoothing,
    .seeds = true,
    .slots = 6,
    .takes = {[LOSS_WEIGHTS] = TYPES_FLOAT | TYPES_QUANTISED,
              [LOSS_LABELS] = TYPE_I32,
              [LOSS_BEFORE] = TYPE_F32,
              [LOSS_CORRECT_BEFORE] = TYPE_I32}};
const struct op_row op_row_linear_cross_entropy_backward = {
    "LinearCrossEntropyBackward",
    "gradients of that loss by rows, weights (unless fixed) and bias",
    .output_count = 3,
    .flops = flops_linear_entropy,
    ROW_ATTRIBUTES(linear_entropy_attributes),
    .takes = {[LOSS_WEIGHTS] = TYPES_FLOAT | TYPES_QUANTISED,
              [LOSS_LABELS] = TYPE_I32,
              [LOSS_BACK_LOG_SUM] = TYPE_F32,
              [LOSS_BACK_GRADIENT] = TYPE_F32},
    .exact = EXACT_ALL};

neap_tensor neap_linear_cross_entropy(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias,
                                      neap_tensor labels, neap_linear_cross_entropy_options o) {
  if (!builder_usable(b, x) || !builder_usable(b, weight) || !builder_usable(b, labels)) return FAILED;
  const struct tensor rows = *builder_tensor(b, x), all = *builder_tensor(b, labels);
  if (o.by_time && all.rank != 2)
    return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                                     "LinearCrossEntropy: labels by time must be [N, T], but '%s' is %s",
                                     all.name, shape_text(&all).text));
  x = builder_view(b, x, 2, (int64_t[]){rows.elements / rows.dims[rows.rank - 1], rows.dims[rows.rank - 1]});
  labels = builder_view(b, labels, 1, &all.elements);
  const bool goes_on = o.first > 0;
  char name[2 * NAME_LIMIT];
  builder_name(b, OP_LINEAR_CROSS_ENTROPY, name);
  const int32_t inputs[] = {x,
                            weight,
                            labels,
                            bias >= 0 ? bias : NO_TENSOR,
                            goes_on ? o.before : NO_TENSOR,
                            goes_on ? builder_graph(b)->correct : NO_TENSOR};
  int32_t outputs[3];
  const union attributes a = {
      .loss = {
          .smoothing = o.smoothing, .ignored = -1, .first = o.first, .times = o.by_time ? all.dims[1] : 0}};
  if (builder_apply(b, OP_LINEAR_CROSS_ENTROPY, name, a, inputs, 6, outputs) < 0) return FAILED;
  builder_graph(b)->correct = outputs[1];
  return outputs[0];
}

/* ---- Two tensors of one shape ---- */

static neap_status infer_pair(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0), *t = node_input(graph, node, 1);
  TRY(need_real(graph, node, -1, "two tensors"));
  TRY(need_same_shape(node, x, t));
  outputs[0] = value_of(NEAP_F32, 1, 1, 0);
  return NEAP_OK;
}

static neap_status gradient_pair(struct gradient *g, const struct node *n, enum op backward) {
  const int32_t *in = n->inputs, dloss = g->of[n->outputs[0]];
  struct node by_target = *n;
  by_target.attributes.loss.by_target = true;
  TRY(GRADIENT_EMIT(g, backward, n, in[0], in[0], in[1], dloss));
  return GRADIENT_EMIT(g, backward, &by_target, in[1], in[0], in[1], dloss);
}

/* Only smooth L1 has a beta; only gradients have a side. */
#define PAIR_LOSS(NAME, id, text, about, value, slope, target_slope)                                         \
  static neap_status gradient_##id(struct gradient *g, const struct node *n) {                               \
    return gradient_pair(g, n, OP_##NAME##_BACKWARD);                                                        \
  }                                                                                                          \
  enum { BETAS_##NAME = OP_##NAME == OP_SMOOTH_L1_LOSS };                                                    \
  const struct op_row op_row_##id = {text,                                                                   \
                                     about,                                                                  \
                                     #id,                                                                    \
                                     1,                                                                      \
                                     infer_pair,                                                             \
                                     gradient_##id,                                                          \
                                     .attributes = pair_attributes,                                          \
                                     .attribute_count = BETAS_##NAME,                                        \
                                     .seeds = true};                                                         \
  const struct op_row op_row_##id##_backward = {text "Backward",                                             \
                                                "gradient of " text,                                         \
                                                .output_count = 1,                                           \
                                                ROW_INPLACE(inplace_either),                                 \
                                                .attributes = pair_attributes + 1 - BETAS_##NAME,            \
                                                .attribute_count = 1 + BETAS_##NAME,                         \
                                                .exact = EXACT_ALL};
#include "op/loss_list.h"

static neap_tensor pair(neap_builder *b, enum op op, neap_tensor x, neap_tensor target, float beta) {
  const union attributes a = builder_attributes(op, (union attributes){.loss = {.beta = beta}});
  return builder_next(b, op, a, (int32_t[]){x, target}, 2);
}

neap_tensor neap_mse_loss(neap_builder *b, neap_tensor x, neap_tensor target) {
  return pair(b, OP_MSE_LOSS, x, target, 0);
}

neap_tensor neap_l1_loss(neap_builder *b, neap_tensor x, neap_tensor target) {
  return pair(b, OP_L1_LOSS, x, target, 0);
}

neap_tensor neap_smooth_l1_loss(neap_builder *b, neap_tensor x, neap_tensor target, float beta) {
  if (builder_ready(b) && !(beta >= 0))
    return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT, "SmoothL1: beta %g is negative", (double)beta));
  return pair(b, OP_SMOOTH_L1_LOSS, x, target, beta);
}

neap_tensor neap_binary_cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor target) {
  return pair(b, OP_BINARY_CROSS_ENTROPY, logits, target, 0);
}
