#include "rewrite/copy.h"

neap_status copy_value(struct copy *copy, int32_t old) {
  struct tensor tensor = copy->from->tensors.data[old];
  if (tensor.view_of >= 0) tensor.view_of = graph_storage(copy->to, copy->map[tensor.view_of]);
  if (tensor.lies_in > 0) tensor.lies_in = 1 + copy->map[tensor.lies_in - 1];
  return graph_add_tensor(copy->to, tensor, &copy->map[old]);
}

neap_status copy_begin(struct copy *copy, const struct neap_graph *from, const bool *wanted) {
  *copy = (struct copy){.from = from};
  neap_status status = graph_create(from->name, &copy->to);
  copy->map = malloc((from->tensors.count + 1) * sizeof *copy->map);
  if (status == NEAP_OK && copy->map == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", from->name);
  for (size_t t = 0; copy->map != NULL && t < from->tensors.count; t++) copy->map[t] = -1;
  for (size_t t = 0; status == NEAP_OK && t < from->tensors.count; t++)
    if (from->tensors.data[t].role != NEAP_ROLE_VALUE && from->tensors.data[t].view_of < 0 &&
        (wanted == NULL || wanted[t]))
      status = copy_value(copy, (int32_t)t);
  return status == NEAP_OK ? NEAP_OK : copy_end(copy, status, NULL);
}

neap_status copy_tensor(struct copy *copy, int32_t old, int32_t *id) {
  if (old == NO_TENSOR) {
    *id = NO_TENSOR;
    return NEAP_OK;
  }
  const int32_t base = copy->from->tensors.data[old].view_of;
  if (copy->map[old] < 0 && base >= 0 && copy->map[base] >= 0) TRY(copy_value(copy, old));
  RETURN_IF(copy->map[old] < 0, NEAP_INTERNAL, "rewrite of '%s': tensor '%s' is read before it is made",
            copy->from->name, copy->from->tensors.data[old].name);
  *id = copy->map[old];
  return NEAP_OK;
}

neap_status copy_node(struct copy *copy, struct node node) {
  int32_t outputs[NODE_MAX_OUTPUTS];
  copy->ids.count = 0;
  TRY(vector_reserve(&copy->ids, (size_t)(node.input_count + node.update_count) + 1));
  int32_t *inputs = copy->ids.data, *updates = inputs + node.input_count;
  for (int32_t i = 0; i < node.input_count; i++) TRY(copy_tensor(copy, node.inputs[i], &inputs[i]));
  for (int32_t i = 0; i < node.update_count; i++) TRY(copy_tensor(copy, node.updates[i], &updates[i]));
  for (int32_t i = 0; i < node.output_count; i++) {
    TRY(copy_value(copy, node.outputs[i]));
    outputs[i] = copy->map[node.outputs[i]];
  }
  node.inputs = inputs;
  node.outputs = outputs;
  node.updates = updates;
  return graph_add_node(copy->to, node);
}

neap_status find_running(const struct neap_graph *graph, int32_t **running) {
  *running = malloc((graph->tensors.count + 1) * sizeof **running);
  RETURN_IF(*running == NULL, NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  for (size_t t = 0; t < graph->tensors.count; t++) (*running)[t] = -1;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op != OP_RUNNING_STATISTICS) continue;
    (*running)[node->inputs[0]] = node->inputs[2];
    (*running)[node->inputs[1]] = node->inputs[3];
  }
  return NEAP_OK;
}

neap_status copy_norm(struct copy *copy, struct node norm, const int32_t *running) {
  const int32_t *in = norm.inputs;
  norm.inputs = (int32_t[]){in[NORM_X],     running[in[NORM_MEAN]], running[in[NORM_VARIANCE]],
                            in[NORM_GAMMA], in[NORM_BETA],          in[NORM_ADDEND]};
  RETURN_IF(norm.inputs[NORM_MEAN] < 0 || norm.inputs[NORM_VARIANCE] < 0, NEAP_INTERNAL,
            "batch norm '%s' has no running statistics", norm.name);
  return copy_node(copy, norm);
}

bool reads_in_parts(const struct neap_graph *graph, const struct node *node, int32_t slot) {
  const bool takes =
      (node->op == OP_LINEAR && slot == 1) || (node->op == OP_EXPERT_LINEAR && slot == EXPERT_WEIGHTS) ||
      (node->op == OP_GATHER && slot == 0) || (node->op == OP_LINEAR_CROSS_ENTROPY && slot == LOSS_WEIGHTS);
  return takes && graph->tensors.data[node->inputs[slot]].view_of < 0;
}

neap_status copy_end(struct copy *copy, neap_status status, struct neap_graph **out) {
  if (status == NEAP_OK) {
    copy->to->loss = copy->from->loss < 0 ? -1 : copy->map[copy->from->loss];
    copy->to->correct = copy->from->correct < 0 ? -1 : copy->map[copy->from->correct];
    copy->to->norm = copy->from->norm < 0 ? -1 : copy->map[copy->from->norm];
    for (size_t i = 0; status == NEAP_OK && i < copy->from->outputs.count; i++) {
      int32_t tensor = copy->from->outputs.data[i].tensor;
      if (copy->map[graph_storage(copy->from, tensor)] < 0) continue; /* it is not made any more */
      status = copy_tensor(copy, tensor, &tensor);
      if (status == NEAP_OK) status = graph_add_output(copy->to, copy->from->outputs.data[i].name, tensor);
    }
  }
  if (status == NEAP_OK) {
    *out = copy->to;
  } else {
    neap_graph_free(copy->to);
  }
  free(copy->map);
  vector_free(&copy->ids);
  return status;
}
