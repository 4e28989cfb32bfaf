#include "rewrite/copy.h"

/* Marks the storages that an output hangs on. */
static void mark_wanted(const struct neap_graph *graph, bool *wanted) {
  for (size_t i = 0; i < graph->outputs.count; i++)
    wanted[graph_storage(graph, graph->outputs.data[i].tensor)] = true;
  for (size_t v = graph->nodes.count; v-- > 0;) {
    const struct node *node = &graph->nodes.data[v];
    bool any = false;
    for (int32_t i = 0; i < node->output_count; i++) any = any || wanted[node->outputs[i]];
    for (int32_t i = 0; any && i < node->input_count; i++)
      if (node->inputs[i] != NO_TENSOR) wanted[graph_storage(graph, node->inputs[i])] = true;
  }
}

static neap_status prune(const struct neap_graph *graph, struct neap_graph **out) {
  struct copy copy;
  bool *wanted = calloc(graph->tensors.count + 1, sizeof *wanted);
  RETURN_IF_NULL(wanted);
  mark_wanted(graph, wanted);
  neap_status status = copy_begin(&copy, graph, wanted);
  if (status == NEAP_OK) {
    for (size_t v = 0; status == NEAP_OK && v < graph->nodes.count; v++) {
      const struct node *node = &graph->nodes.data[v];
      bool any = false;
      for (int32_t i = 0; i < node->output_count; i++) any = any || wanted[node->outputs[i]];
      if (any) status = copy_node(&copy, *node);
    }
    status = copy_end(&copy, status, out);
  }
  free(wanted);
  if (status == NEAP_OK) (*out)->loss = (*out)->correct = -1;
  return status;
}

neap_status rewrite_prediction(const struct neap_graph *graph, struct neap_graph **out) {
  RETURN_IF(graph->outputs.count == 0, NEAP_INVALID_ARGUMENT,
            "graph '%s' has nothing to predict: name an output (neap_output)", graph->name);
  struct neap_graph *evaluation;
  TRY(rewrite_evaluation(graph, &evaluation));
  const neap_status status = prune(evaluation, out);
  neap_graph_free(evaluation);
  return status;
}
