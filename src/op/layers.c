#include "op/layers.h"

bool is_parameter(const struct tensor *t) { return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0; }

int32_t matrix_of(const struct neap_graph *graph, const struct node *node) {
  if (node->op != OP_LINEAR && node->op != OP_EXPERT_LINEAR &&
      (node->op != OP_MATMUL || node->attributes.matmul.a_transposed))
    return NO_TENSOR;
  const int32_t w = node->inputs[1];
  return is_parameter(&graph->tensors.data[w]) && graph->tensors.data[w].rank == 2 ? w : NO_TENSOR;
}

/* Returns the only tensor that a node computes with, parameters left out; NO_TENSOR: there are more, or none.
 */
static int32_t only_input(const struct neap_graph *graph, const struct node *node) {
  int32_t only = NO_TENSOR;
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR) continue;
    const int32_t id = graph_storage(graph, node->inputs[i]);
    if (is_parameter(&graph->tensors.data[id])) continue;
    if (only != NO_TENSOR) return NO_TENSOR;
    only = id;
  }
  return only;
}

/* Returns true if each element of the result is made of one of a tensor, or of its row's. */
static bool keeps_logits(enum op op) {
  switch (op) {
#define UNARY(NAME, ...)  case OP_##NAME:
#define BINARY(NAME, ...) case OP_##NAME:
#include "op/elementwise_list.h"
  case OP_CAST:
  case OP_SOFTMAX:
    return true;
  default:
    return false;
  }
}

void mark_logits(const struct neap_graph *graph, bool *logits) {
  for (size_t i = 0; i < graph->outputs.count; i++)
    logits[graph_storage(graph, graph->outputs.data[i].tensor)] = true;
  for (size_t v = graph->nodes.count; v-- > 0;) {
    const struct node *node = &graph->nodes.data[v];
    const bool scores = node->op == OP_ROUTE; /* of a router, which no adapter is for unless it is named */
    for (int32_t i = 0; (node_row(node)->seeds || scores) && i < node->input_count; i++)
      if (node->inputs[i] != NO_TENSOR) logits[graph_storage(graph, node->inputs[i])] = true;
    const bool here = keeps_logits(node->op) && logits[graph_storage(graph, node->outputs[0])];
    const int32_t x = here ? only_input(graph, node) : NO_TENSOR;
    if (x != NO_TENSOR) logits[x] = true;
  }
}

bool is_embedding(const struct neap_graph *graph, int32_t weight) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op == OP_GATHER && graph_storage(graph, node->inputs[0]) == weight) return true;
  }
  return false;
}
