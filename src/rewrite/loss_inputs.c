/* Optional inputs of losses: weights of classes, second labels. */
#include <string.h>

#include "rewrite/copy.h"

enum { WEIGHTS = 2, OTHERS, SHARES, LOSS_INPUTS };

static bool lacks(const struct node *node, int slot) {
  return node->op == OP_SOFTMAX_CROSS_ENTROPY && node->inputs[slot] == NO_TENSOR;
}

/* Copies a loss with the inputs of `more` [LOSS_INPUTS], ids of the copy; those that are NO_TENSOR stay as
 * they were. */
static neap_status copy_loss(struct copy *copy, struct node node, const int32_t *more) {
  int32_t inputs[LOSS_INPUTS], outputs[2];
  for (int i = 0; i < LOSS_INPUTS; i++) {
    inputs[i] = more[i];
    if (more[i] == NO_TENSOR) TRY(copy_tensor(copy, node.inputs[i], &inputs[i]));
  }
  for (int i = 0; i < 2; i++) {
    TRY(copy_value(copy, node.outputs[i]));
    outputs[i] = copy->map[node.outputs[i]];
  }
  node.inputs = inputs;
  node.input_count = LOSS_INPUTS;
  node.outputs = outputs;
  return graph_add_node(copy->to, node);
}

/* Copies the nodes; losses take `more` in the slots that they lack. */
static neap_status copy_nodes(struct copy *copy, int slot, const int32_t *more) {
  for (size_t v = 0; v < copy->from->nodes.count; v++) {
    const struct node *node = &copy->from->nodes.data[v];
    TRY(lacks(node, slot) ? copy_loss(copy, *node, more) : copy_node(copy, *node));
  }
  return NEAP_OK;
}

/* ---- Weights of classes ---- */

/* Finds the number of classes of the losses that take weights; 0: the graph has no such loss. */
static neap_status find_classes(const struct neap_graph *graph, int64_t *classes) {
  *classes = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (!lacks(node, WEIGHTS)) continue;
    const int64_t own = node_input(graph, node, 0)->dims[1];
    RETURN_IF(*classes != 0 && own != *classes, NEAP_INVALID_ARGUMENT,
              "class weights: '%s' has losses of %lld and of %lld classes; they must have the same number",
              graph->name, (long long)*classes, (long long)own);
    *classes = own;
  }
  RETURN_IF(*classes == 0, NEAP_INVALID_ARGUMENT, "class weights: '%s' has no cross-entropy of logits",
            graph->name);
  return NEAP_OK;
}

neap_status rewrite_class_weights(const struct neap_graph *graph, struct neap_graph **out) {
  struct copy copy;
  struct tensor weights = {
      .name = CLASS_WEIGHTS, .dtype = NEAP_F32, .role = NEAP_ROLE_INPUT, .rank = 1, .view_of = -1};
  int32_t more[LOSS_INPUTS] = {NO_TENSOR, NO_TENSOR, NO_TENSOR, NO_TENSOR, NO_TENSOR};
  TRY(find_classes(graph, &weights.dims[0]));
  TRY(copy_begin(&copy, graph, NULL));
  neap_status status = graph_add_tensor(copy.to, weights, &more[WEIGHTS]);
  if (status == NEAP_OK) status = copy_nodes(&copy, WEIGHTS, more);
  return copy_end(&copy, status, out);
}

/* ---- Second labels ---- */

/* Finds the labels whose shape all losses share. */
static neap_status find_labels(const struct neap_graph *graph, const struct tensor **labels) {
  *labels = NULL;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (!lacks(node, OTHERS)) continue;
    const struct tensor *own = node_input(graph, node, 1);
    RETURN_IF(*labels != NULL && own->elements != (*labels)->elements, NEAP_INVALID_ARGUMENT,
              "mixed labels: '%s' has losses of %lld and of %lld labels; they must have the same number",
              graph->name, (long long)(*labels)->elements, (long long)own->elements);
    *labels = own;
  }
  RETURN_IF(*labels == NULL, NEAP_INVALID_ARGUMENT, "mixed labels: '%s' has no cross-entropy of logits",
            graph->name);
  return NEAP_OK;
}

neap_status rewrite_mixed_labels(const struct neap_graph *graph, struct neap_graph **out) {
  struct copy copy;
  const struct tensor *labels;
  int32_t more[LOSS_INPUTS] = {NO_TENSOR, NO_TENSOR, NO_TENSOR, NO_TENSOR, NO_TENSOR};
  TRY(find_labels(graph, &labels));
  struct tensor others = {
      .name = OTHER_LABELS, .dtype = NEAP_I32, .role = NEAP_ROLE_INPUT, .rank = labels->rank, .view_of = -1};
  memcpy(others.dims, labels->dims, sizeof others.dims);
  struct tensor shares = others;
  shares.name = LABEL_SHARES;
  shares.dtype = NEAP_F32;
  TRY(copy_begin(&copy, graph, NULL));
  neap_status status = graph_add_tensor(copy.to, others, &more[OTHERS]);
  if (status == NEAP_OK) status = graph_add_tensor(copy.to, shares, &more[SHARES]);
  if (status == NEAP_OK) status = copy_nodes(&copy, OTHERS, more);
  return copy_end(&copy, status, out);
}
