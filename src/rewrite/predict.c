#include "rewrite/copy.h"

/* The updates that are wanted. */
enum updates { ALL_UPDATES, PREPARED, OTHERS };

static bool is_wanted(const struct neap_graph *graph, const struct node *node, enum updates updates,
                      const bool *wanted) {
  bool any = false;
  for (int32_t i = 0; i < node->update_count; i++)
    any = any || updates == ALL_UPDATES ||
          graph->tensors.data[node->updates[i]].prepared == (updates == PREPARED);
  for (int32_t i = 0; i < node->output_count; i++) any = any || wanted[node->outputs[i]];
  return any;
}

/* Marks all storages that marked ones depend on; an updated variable depends on the update's inputs. */
static void mark_wanted(const struct neap_graph *graph, enum updates updates, bool *wanted) {
  for (size_t v = graph->nodes.count; v-- > 0;) {
    const struct node *node = &graph->nodes.data[v];
    const bool any = is_wanted(graph, node, updates, wanted);
    for (int32_t i = 0; any && i < node->input_count; i++)
      if (node->inputs[i] != NO_TENSOR) wanted[graph_storage(graph, node->inputs[i])] = true;
  }
}

/* Copies the nodes that the marked storages depend on. */
static neap_status copy_wanted(const struct neap_graph *graph, enum updates updates, bool *wanted,
                               struct neap_graph **out) {
  struct copy copy;
  mark_wanted(graph, updates, wanted);
  TRY(copy_begin(&copy, graph, wanted));
  neap_status status = NEAP_OK;
  for (size_t v = 0; status == NEAP_OK && v < graph->nodes.count; v++)
    if (is_wanted(graph, &graph->nodes.data[v], updates, wanted))
      status = copy_node(&copy, graph->nodes.data[v]);
  return copy_end(&copy, status, out);
}

neap_status rewrite_prune(const struct neap_graph *graph, int64_t outputs, struct neap_graph **out) {
  bool *wanted = calloc(graph->tensors.count + 1, sizeof *wanted);
  RETURN_IF_NULL(wanted);
  for (size_t t = 0; t < graph->tensors.count; t++)
    wanted[t] = graph->tensors.data[t].role != NEAP_ROLE_VALUE;
  if (graph->loss >= 0) wanted[graph_storage(graph, graph->loss)] = true;
  if (graph->correct >= 0) wanted[graph_storage(graph, graph->correct)] = true;
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const int32_t tensor = graph->outputs.data[i].tensor;
    if (graph->tensors.data[tensor].elements <= outputs) wanted[graph_storage(graph, tensor)] = true;
  }
  const neap_status status = copy_wanted(graph, ALL_UPDATES, wanted, out);
  free(wanted);
  return status;
}

neap_status rewrite_part(const struct neap_graph *graph, bool prepares, struct neap_graph **out) {
  bool *wanted = calloc(graph->tensors.count + 1, sizeof *wanted);
  RETURN_IF_NULL(wanted);
  for (size_t t = 0; t < graph->tensors.count; t++)
    wanted[t] = graph->tensors.data[t].role != NEAP_ROLE_VALUE;
  for (size_t i = 0; !prepares && i < graph->outputs.count; i++)
    wanted[graph_storage(graph, graph->outputs.data[i].tensor)] = true;
  const neap_status status = copy_wanted(graph, prepares ? PREPARED : OTHERS, wanted, out);
  free(wanted);
  return status;
}

neap_status rewrite_prediction(const struct neap_graph *graph, struct neap_graph **out) {
  RETURN_IF(graph->outputs.count == 0, NEAP_INVALID_ARGUMENT,
            "graph '%s' has no output to predict; name one (neap_output)", graph->name);
  struct neap_graph *evaluation;
  TRY(rewrite_evaluation(graph, true, &evaluation));
  bool *wanted = calloc(evaluation->tensors.count + 1, sizeof *wanted);
  neap_status status = NEAP_OK;
  if (wanted == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  for (size_t i = 0; wanted != NULL && i < evaluation->outputs.count; i++)
    wanted[graph_storage(evaluation, evaluation->outputs.data[i].tensor)] = true;
  if (status == NEAP_OK) status = copy_wanted(evaluation, ALL_UPDATES, wanted, out);
  if (status == NEAP_OK) (*out)->loss = (*out)->correct = -1;
  free(wanted);
  neap_graph_free(evaluation);
  return status;
}
