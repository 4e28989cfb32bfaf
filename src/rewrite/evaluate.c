#include "rewrite/copy.h"

/* Copies a node by the rules of evaluation. `plain`: losses are those of evaluation, too. */
static neap_status evaluate_node(struct copy *copy, const struct node *node, const int32_t *running,
                                 bool plain) {
  const struct op_row *row = node_row(node);
  const enum evaluation how = row->evaluation;
  if (node->pass == NEAP_PASS_UPDATE || how == EVALUATION_NONE) return NEAP_OK;
  if (how == EVALUATION_IDENTITY) return copy_tensor(copy, node->inputs[0], &copy->map[node->outputs[0]]);
  struct node changed = *node;
  if (row->seeds && !plain) return copy_node(copy, changed);
  if (row->evaluated != NULL) row->evaluated(&changed.attributes);
  const int32_t inputs[] = {node->inputs[0], node->inputs[1], NO_TENSOR, NO_TENSOR, NO_TENSOR};
  if (node->op == OP_SOFTMAX_CROSS_ENTROPY) changed.inputs = inputs; /* held-out losses are plain */
  if (how != EVALUATION_RUNNING || node->attributes.batch_norm.fixed) return copy_node(copy, changed);
  return copy_norm(copy, changed, running);
}

neap_status rewrite_evaluation(const struct neap_graph *graph, bool plain, struct neap_graph **out) {
  struct copy copy;
  int32_t *running = NULL;
  TRY(copy_begin(&copy, graph, NULL));
  neap_status status = find_running(graph, &running);
  for (size_t v = 0; status == NEAP_OK && v < graph->nodes.count; v++)
    status = evaluate_node(&copy, &graph->nodes.data[v], running, plain);
  free(running);
  return copy_end(&copy, status, out);
}
