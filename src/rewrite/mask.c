#include <string.h>

#include "rewrite/copy.h"

/* Returns true for a BatchNorm with an addend and a ReLU after their sum. Its gradient reads the output, as
 * Relu's does. */
static bool is_norm_with_relu(const struct node *node) {
  return node->op == OP_BATCH_NORM && node->inputs[NORM_ADDEND] != NO_TENSOR &&
         node->attributes.batch_norm.relu && node->attributes.batch_norm.ceiling == 0;
}

/* Returns the node with the ReLU whose output this ReluBackward reads, if nothing else in the backward pass
 * reads it; else -1. */
static int32_t maskable(const struct neap_graph *graph, const int32_t *start, const int32_t *readers,
                        const struct node *backward) {
  const int32_t y = backward->inputs[0], relu = graph->tensors.data[y].producer;
  if (relu < 0 || (graph->nodes.data[relu].op != OP_RELU && !is_norm_with_relu(&graph->nodes.data[relu])))
    return -1;
  int32_t uses = 0;
  for (int32_t i = start[y]; i < start[y + 1]; i++)
    uses += graph->nodes.data[readers[i]].pass != NEAP_PASS_FORWARD;
  return uses == 1 ? relu : -1;
}

/* Fills by_relu[node]: whether it gets a mask. */
static neap_status find_relus(const struct neap_graph *graph, struct region *region, bool **by_relu) {
  const int32_t *start, *readers;
  *by_relu = region_alloc(region, graph->nodes.count, sizeof **by_relu);
  RETURN_IF_NULL(*by_relu);
  TRY(graph_readers(graph, region, &start, &readers));
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const int32_t relu = node->op == OP_RELU_BACKWARD ? maskable(graph, start, readers, node) : -1;
    if (relu >= 0) (*by_relu)[relu] = true;
  }
  return NEAP_OK;
}

/* Appends x -> y, mask. */
static neap_status add_relu_mask(struct copy *copy, const struct node *node, int32_t x, int32_t *mask) {
  TRY(graph_add_like(copy->to, x, node->name, mask));
  copy->to->tensors.data[*mask].dtype = NEAP_BIT;
  const int32_t outputs[] = {copy->map[node->outputs[0]], *mask};
  return graph_add_node(copy->to, (struct node){.name = node->name,
                                                .op = OP_RELU_MASK,
                                                .pass = node->pass,
                                                .inputs = &x,
                                                .input_count = 1,
                                                .outputs = outputs,
                                                .output_count = 2});
}

/* Copies a Relu with a mask. A BatchNorm is split: its ReLU becomes a node after it. */
static neap_status copy_forward(struct copy *copy, struct node node, int32_t *mask) {
  int32_t inputs[NORM_INPUTS], sum;
  for (int32_t i = 0; i < node.input_count; i++) TRY(copy_tensor(copy, node.inputs[i], &inputs[i]));
  TRY(copy_value(copy, node.outputs[0]));
  if (node.op == OP_RELU) return add_relu_mask(copy, &node, inputs[0], mask);
  TRY(graph_add_like(copy->to, copy->map[node.outputs[0]], node.name, &sum));
  struct node norm = node;
  norm.inputs = inputs;
  norm.outputs = &sum;
  norm.attributes.batch_norm.relu = false;
  TRY(graph_add_node(copy->to, norm));
  return add_relu_mask(copy, &node, sum, mask);
}

/* Appends mask, dy -> dx. */
static neap_status copy_backward(struct copy *copy, struct node node, int32_t mask) {
  int32_t inputs[2] = {mask};
  TRY(copy_tensor(copy, node.inputs[1], &inputs[1]));
  TRY(copy_value(copy, node.outputs[0]));
  node.op = OP_RELU_MASK_BACKWARD;
  node.inputs = inputs;
  node.outputs = &copy->map[node.outputs[0]];
  return graph_add_node(copy->to, node);
}

static neap_status copy_all(struct copy *copy, struct region *region) {
  const struct neap_graph *graph = copy->from;
  bool *by_relu;
  TRY(find_relus(graph, region, &by_relu));
  int32_t *masks = region_alloc(region, graph->nodes.count, sizeof *masks); /* by node that ends with ReLU */
  RETURN_IF_NULL(masks);
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const int32_t relu = node->op == OP_RELU_BACKWARD ? graph->tensors.data[node->inputs[0]].producer : -1;
    if (by_relu[v])
      TRY(copy_forward(copy, *node, &masks[v]));
    else if (relu >= 0 && by_relu[relu])
      TRY(copy_backward(copy, *node, masks[relu]));
    else
      TRY(copy_node(copy, *node));
  }
  return NEAP_OK;
}

neap_status rewrite_mask(const struct neap_graph *graph, struct neap_graph **out) {
  struct copy copy;
  struct region region = {0};
  TRY(copy_begin(&copy, graph, NULL));
  const neap_status status = copy_all(&copy, &region);
  region_free(&region);
  return copy_end(&copy, status, out);
}
