#include "rewrite/copy.h"

static neap_status evaluate_node(struct copy *copy, const struct node *node, const int32_t *running_mean,
                                 const int32_t *running_variance) {
  const enum evaluation how = node_row(node)->evaluation;
  if (node->pass == NEAP_PASS_UPDATE || how == EVALUATION_NONE) return NEAP_OK;
  if (how == EVALUATION_IDENTITY) return copy_tensor(copy, node->inputs[0], &copy->map[node->outputs[0]]);
  struct node changed = *node;
  if (node_row(node)->evaluated != NULL) node_row(node)->evaluated(&changed.attributes);
  if (how != EVALUATION_RUNNING) return copy_node(copy, changed);
  const int32_t *in = node->inputs;
  changed.inputs = (int32_t[]){in[NORM_X],
                               running_mean[in[NORM_MEAN]],
                               running_variance[in[NORM_VARIANCE]],
                               in[NORM_GAMMA],
                               in[NORM_BETA],
                               in[NORM_ADDEND]};
  RETURN_IF(changed.inputs[NORM_MEAN] < 0 || changed.inputs[NORM_VARIANCE] < 0, NEAP_INTERNAL,
            "batch norm '%s' has no running statistics", node->name);
  return copy_node(copy, changed);
}

neap_status rewrite_evaluation(const struct neap_graph *graph, struct neap_graph **out) {
  struct copy copy;
  TRY(copy_begin(&copy, graph, NULL));
  neap_status status = NEAP_OK;
  /* Batch statistic -> the running one that follows it. */
  const size_t tensors = graph->tensors.count;
  int32_t *running_mean = malloc((2 * tensors + 1) * sizeof *running_mean);
  if (running_mean == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  int32_t *running_variance = running_mean == NULL ? NULL : running_mean + tensors;
  for (size_t i = 0; status == NEAP_OK && i < 2 * tensors; i++) running_mean[i] = -1;
  for (size_t v = 0; status == NEAP_OK && v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op != OP_RUNNING_STATISTICS) continue;
    running_mean[node->inputs[0]] = node->inputs[2];
    running_variance[node->inputs[1]] = node->inputs[3];
  }
  for (size_t v = 0; status == NEAP_OK && v < graph->nodes.count; v++)
    status = evaluate_node(&copy, &graph->nodes.data[v], running_mean, running_variance);
  free(running_mean);
  return copy_end(&copy, status, out);
}
