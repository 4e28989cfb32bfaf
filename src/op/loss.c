/* Losses: scalars that training makes smaller. */
#include "op/builder.h"

static const struct attribute_row entropy_attributes[] = {ATTRIBUTE(loss.smoothing, REAL),
                                                          ATTRIBUTE(loss.ignored, INTEGER)};
static const struct attribute_row pair_attributes[] = {ATTRIBUTE_USUAL(loss.beta, REAL, 1),
                                                       ATTRIBUTE(loss.by_target, FLAG)};

/* ---- Cross-entropy ---- */

/* Logits [N, classes, pixels...], a label for each [N, pixels...]. */
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
  const float s = node->attributes.loss.smoothing;
  RETURN_IF(!(s >= 0 && s < 1), NEAP_INVALID_ARGUMENT,
            "SoftmaxCrossEntropy '%s': smoothing %g is not in [0, 1)", node->name, (double)s);
  outputs[0] = value_of(NEAP_F32, 1, 1, 0);
  outputs[1] = value_of(NEAP_I32, 1, 1, 0);
  return NEAP_OK;
}

static neap_status gradient_cross_entropy(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_SOFTMAX_CROSS_ENTROPY_BACKWARD, n, n->inputs[0], n->inputs[0], n->inputs[1],
                       g->of[n->outputs[0]]);
}

const struct op_row op_row_softmax_cross_entropy = {"SoftmaxCrossEntropy",
                                                    "fused loss with label smoothing; counts right answers",
                                                    "cross_entropy",
                                                    2,
                                                    infer_cross_entropy,
                                                    gradient_cross_entropy,
                                                    ROW_ATTRIBUTES(entropy_attributes),
                                                    .seeds = true};
const struct op_row op_row_softmax_cross_entropy_backward = {
    "SoftmaxCrossEntropyBackward", "gradient of the loss by the logits", .output_count = 1,
    ROW_INPLACE(inplace_first), ROW_ATTRIBUTES(entropy_attributes)};

static neap_tensor cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                 struct loss_attributes a) {
  if (!builder_usable(b, logits) || !builder_usable(b, labels)) return FAILED;
  char name[2 * NAME_LIMIT];
  builder_name(b, OP_SOFTMAX_CROSS_ENTROPY, name);
  int32_t outputs[2];
  if (builder_apply(b, OP_SOFTMAX_CROSS_ENTROPY, name, (union attributes){.loss = a},
                    (int32_t[]){logits, labels}, 2, outputs) < 0)
    return FAILED;
  builder_graph(b)->correct = outputs[1];
  return outputs[0];
}

neap_tensor neap_softmax_cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                       float smoothing) {
  return cross_entropy(b, logits, labels, (struct loss_attributes){.smoothing = smoothing, .ignored = -1});
}

neap_tensor neap_softmax_cross_entropy_ignoring(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                                float smoothing, int32_t ignored) {
  return cross_entropy(b, logits, labels,
                       (struct loss_attributes){.smoothing = smoothing, .ignored = ignored});
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

/* Smooth L1 alone has a beta; gradients alone have a side. */
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
                                                .attribute_count = 1 + BETAS_##NAME};
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
