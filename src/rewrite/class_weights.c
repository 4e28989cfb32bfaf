/* Weights of classes in the loss. */
#include "rewrite/copy.h"

static bool takes_weights(const struct node *node) {
  return node->op == OP_SOFTMAX_CROSS_ENTROPY && node->inputs[2] == NO_TENSOR;
}

static neap_status add_weights(struct copy *copy, struct node node, int32_t weights) {
  int32_t inputs[3] = {NO_TENSOR, NO_TENSOR, weights}, outputs[2];
  for (int i = 0; i < 2; i++) TRY(copy_tensor(copy, node.inputs[i], &inputs[i]));
  for (int i = 0; i < 2; i++) {
    TRY(copy_value(copy, node.outputs[i]));
    outputs[i] = copy->map[node.outputs[i]];
  }
  node.inputs = inputs;
  node.input_count = 3;
  node.outputs = outputs;
  return graph_add_node(copy->to, node);
}

/* The classes of the losses that take weights; 0: the graph has no such loss. */
static neap_status find_classes(const struct neap_graph *graph, int64_t *classes) {
  *classes = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (!takes_weights(node)) continue;
    const int64_t own = node_input(graph, node, 0)->dims[1];
    RETURN_IF(*classes != 0 && own != *classes, NEAP_INVALID_ARGUMENT,
              "class weights: '%s' has losses of %lld and of %lld classes", graph->name, (long long)*classes,
              (long long)own);
    *classes = own;
  }
  RETURN_IF(*classes == 0, NEAP_INVALID_ARGUMENT,
            "class weights: '%s' has no cross-entropy of logits, whose classes could have weights",
            graph->name);
  return NEAP_OK;
}

neap_status rewrite_class_weights(const struct neap_graph *graph, struct neap_graph **out) {
  struct copy copy;
  struct tensor weights = {
      .name = CLASS_WEIGHTS, .dtype = NEAP_F32, .role = NEAP_ROLE_INPUT, .rank = 1, .view_of = -1};
  int32_t id = NO_TENSOR;
  TRY(find_classes(graph, &weights.dims[0]));
  TRY(copy_begin(&copy, graph, NULL));
  neap_status status = graph_add_tensor(copy.to, weights, &id);
  for (size_t v = 0; status == NEAP_OK && v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    status = takes_weights(node) ? add_weights(&copy, *node, id) : copy_node(&copy, *node);
  }
  return copy_end(&copy, status, out);
}
