#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

neap_status graph_create(const char *name, struct neap_graph **out) {
  struct neap_graph *graph = calloc(1, sizeof *graph);
  RETURN_IF_NULL(graph);
  graph->loss = graph->correct = graph->norm = -1;
  graph->name = region_string(&graph->region, name);
  if (graph->name == NULL) {
    neap_graph_free(graph);
    return neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", name);
  }
  *out = graph;
  return NEAP_OK;
}

void neap_graph_free(neap_graph *graph) {
  if (graph == NULL) return;
  vector_free(&graph->tensors);
  vector_free(&graph->nodes);
  vector_free(&graph->outputs);
  region_free(&graph->region);
  free(graph);
}

struct shape_text dims_text(int32_t rank, const int64_t *dims) {
  struct shape_text shape = {"["};
  size_t length = 1;
  for (int32_t i = 0; i < rank && i < NEAP_MAX_RANK; i++)
    length += (size_t)snprintf(shape.text + length, sizeof shape.text - length, "%s%lld", i > 0 ? ", " : "",
                               (long long)dims[i]);
  snprintf(shape.text + length, sizeof shape.text - length, "]");
  return shape;
}

static const int64_t ELEMENTS_LIMIT = (int64_t)1 << 44;

neap_status graph_add_tensor(struct neap_graph *graph, struct tensor tensor, int32_t *id) {
  RETURN_IF(tensor.rank < 0 || tensor.rank > NEAP_MAX_RANK, NEAP_INVALID_ARGUMENT,
            "tensor '%s' has %d dimensions; 0 to %d are possible", tensor.name, tensor.rank, NEAP_MAX_RANK);
  int64_t elements = 1;
  for (int32_t i = 0; i < tensor.rank; i++) {
    RETURN_IF(tensor.dims[i] < 1, NEAP_INVALID_ARGUMENT,
              "tensor '%s' %s: dimension %d is %lld, but must be at least 1", tensor.name,
              shape_text(&tensor).text, i, (long long)tensor.dims[i]);
    RETURN_IF(tensor.dims[i] > INT32_MAX, NEAP_TOO_LARGE, /* kernels count them in 32 bits */
              "tensor '%s' %s: dimension %d is %lld; at most %d is possible", tensor.name,
              shape_text(&tensor).text, i, (long long)tensor.dims[i], INT32_MAX);
    RETURN_IF(__builtin_mul_overflow(elements, tensor.dims[i], &elements), NEAP_TOO_LARGE,
              "tensor '%s' %s has more elements than 64 bits count", tensor.name, shape_text(&tensor).text);
  }
  /* More than any machine can map; no later size of the tensor overflows: an element takes at most 8 bytes, a
   * layout at most pads 16-fold. */
  RETURN_IF(elements > ELEMENTS_LIMIT, NEAP_TOO_LARGE,
            "tensor '%s' %s has %lld elements; at most 2^44 are possible", tensor.name,
            shape_text(&tensor).text, (long long)elements);
  RETURN_IF(graph->tensors.count >= INT32_MAX - 1, NEAP_TOO_LARGE, "graph '%s' has too many tensors",
            graph->name);
  tensor.elements = elements;
  tensor.producer = -1;
  tensor.name = region_string(&graph->region, tensor.name);
  RETURN_IF_NULL(tensor.name);
  if (tensor.state_of != NULL) {
    tensor.state_of = region_string(&graph->region, tensor.state_of);
    RETURN_IF_NULL(tensor.state_of);
  }
  TRY(vector_push(&graph->tensors, tensor));
  *id = (int32_t)graph->tensors.count - 1;
  return NEAP_OK;
}

neap_status graph_add_like(struct neap_graph *graph, int32_t like, const char *name, int32_t *id) {
  struct tensor tensor = graph->tensors.data[like];
  tensor.name = name;
  tensor.role = NEAP_ROLE_VALUE;
  tensor.view_of = -1;
  tensor.lies_in = 0;
  tensor.shares = 0;
  tensor.spilled = false;
  return graph_add_tensor(graph, tensor, id);
}

neap_status graph_add_node(struct neap_graph *graph, struct node node) {
  RETURN_IF(graph->nodes.count >= INT32_MAX - 1, NEAP_TOO_LARGE, "graph '%s' has too many nodes",
            graph->name);
  RETURN_IF(node.output_count > NODE_MAX_OUTPUTS, NEAP_TOO_LARGE, "node '%s' has %d outputs; %d are possible",
            node.name, node.output_count, NODE_MAX_OUTPUTS);
  node.name = region_string(&graph->region, node.name);
  node.inputs = region_copy(&graph->region, node.inputs, (size_t)node.input_count, sizeof *node.inputs);
  node.outputs = region_copy(&graph->region, node.outputs, (size_t)node.output_count, sizeof *node.outputs);
  node.updates = region_copy(&graph->region, node.updates, (size_t)node.update_count, sizeof *node.updates);
  if (node.numbers != NULL)
    node.numbers = region_copy(&graph->region, node.numbers, (size_t)node.number_count, sizeof *node.numbers);
  RETURN_IF(!node.name || !node.inputs || !node.outputs || !node.updates ||
                (!node.numbers && node.number_count > 0),
            NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  TRY(vector_push(&graph->nodes, node));
  for (int32_t i = 0; i < node.output_count; i++)
    graph->tensors.data[node.outputs[i]].producer = (int32_t)graph->nodes.count - 1;
  return NEAP_OK;
}

neap_status graph_add_view(struct neap_graph *graph, int32_t id, int32_t rank, const int64_t *dims,
                           int32_t *view) {
  struct tensor tensor = graph->tensors.data[id];
  tensor.rank = rank;
  memcpy(tensor.dims, dims, (size_t)rank * sizeof *dims);
  tensor.view_of = graph_storage(graph, id);
  return graph_add_tensor(graph, tensor, view);
}

neap_status graph_add_output(struct neap_graph *graph, const char *name, int32_t tensor) {
  struct graph_output output = {region_string(&graph->region, name), tensor};
  RETURN_IF_NULL(output.name);
  return vector_push(&graph->outputs, output);
}

bool graph_is_output(const struct neap_graph *graph, int32_t tensor) {
  for (size_t i = 0; i < graph->outputs.count; i++)
    if (graph_storage(graph, graph->outputs.data[i].tensor) == graph_storage(graph, tensor)) return true;
  return false;
}

bool graph_has_adapters(const struct neap_graph *graph) {
  for (size_t t = 0; t < graph->tensors.count; t++)
    if (graph->tensors.data[t].adapter) return true;
  return false;
}

neap_status graph_readers(const struct neap_graph *graph, struct region *region, const int32_t **start_out,
                          const int32_t **readers_out) {
  const size_t tensors = graph->tensors.count;
  int32_t *start = region_alloc(region, tensors + 2, sizeof *start);
  int32_t *last = region_alloc(region, tensors, sizeof *last); /* reader seen last, plus one */
  size_t total = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) total += (size_t)graph->nodes.data[v].input_count;
  int32_t *readers = region_alloc(region, total, sizeof *readers);
  RETURN_IF(!start || !last || !readers, NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  /* Two sweeps: count into start[t + 2], then place through start[t + 1], which ends where t + 1 begins. */
  for (int place = 0; place < 2; place++) {
    for (size_t v = 0; v < graph->nodes.count; v++) {
      const struct node *node = &graph->nodes.data[v];
      for (int32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] == NO_TENSOR) continue;
        const int32_t t = graph_storage(graph, node->inputs[i]), mark = (int32_t)(2 * v) + place + 1;
        if (last[t] == mark) continue;
        last[t] = mark;
        if (place)
          readers[start[t + 1]++] = (int32_t)v;
        else
          start[t + 2]++;
      }
    }
    if (!place)
      for (size_t t = 2; t < tensors + 2; t++) start[t] += start[t - 1];
  }
  *start_out = start;
  *readers_out = readers;
  return NEAP_OK;
}

const char *neap_graph_name(const neap_graph *graph) { return graph != NULL ? graph->name : ""; }

int64_t neap_graph_batch(const neap_graph *graph) {
  for (size_t t = 0; graph != NULL && t < graph->tensors.count; t++)
    if (graph->tensors.data[t].role == NEAP_ROLE_INPUT && graph->tensors.data[t].rank > 0)
      return graph->tensors.data[t].dims[0];
  return 0;
}

int64_t neap_graph_parameters(const neap_graph *graph) {
  int64_t total = 0;
  for (size_t t = 0; graph != NULL && t < graph->tensors.count; t++)
    if (graph->tensors.data[t].role == NEAP_ROLE_PARAMETER && !graph->tensors.data[t].frozen)
      total += graph->tensors.data[t].elements;
  return total;
}
