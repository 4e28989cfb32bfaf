#include <string.h>

#include "rewrite/copy.h"

struct fusion {
  int32_t *into;  /* first of a pair -> second; -1: none */
  int32_t *first; /* second of a pair -> first; -1: none */
};

/* Returns the only reader of a tensor if it reads it once and not through a view; else -1. */
static int32_t only_reader(const struct neap_graph *graph, const int32_t *start, const int32_t *readers,
                           int32_t tensor) {
  if (tensor == graph->loss || graph_is_output(graph, tensor) || start[tensor + 1] - start[tensor] != 1)
    return -1;
  const struct node *reader = &graph->nodes.data[readers[start[tensor]]];
  int32_t uses = 0;
  for (int32_t i = 0; i < reader->input_count; i++) {
    if (reader->inputs[i] == NO_TENSOR || graph_storage(graph, reader->inputs[i]) != tensor) continue;
    if (reader->inputs[i] != tensor || ++uses > 1) return -1;
  }
  return readers[start[tensor]];
}

/* Returns true if the ReLU follows a batch norm, which takes it. */
static bool behind_batch_norm(const struct neap_graph *graph, const struct node *relu) {
  const int32_t producer = graph->tensors.data[graph_storage(graph, relu->inputs[0])].producer;
  return producer >= 0 && graph->nodes.data[producer].op == OP_BATCH_NORM;
}

/* Returns the slot of the addend of an operator; -1 if it adds nothing or its result has already passed a
 * ReLU. */
static int32_t addend_slot(const struct node *node) {
  if (node->op == OP_CONV) return CONV_ADDEND;
  return node->op == OP_BATCH_NORM && !node->attributes.batch_norm.relu ? NORM_ADDEND : -1;
}

static bool fusible(const struct neap_graph *graph, const struct node *node, const struct node *reader,
                    bool bits) {
  if (reader->op == OP_RELU || reader->op == OP_RELU6) {
    if (node->op != OP_BATCH_NORM || node->attributes.batch_norm.relu) return false;
    return !bits || reader->op == OP_RELU6 || node->inputs[NORM_ADDEND] != NO_TENSOR;
  }
  if (reader->op == OP_MAX_POOL) return node->op == OP_RELU && !behind_batch_norm(graph, node);
  const int32_t slot = addend_slot(node);
  if (reader->op != OP_ADD || slot < 0 || node->inputs[slot] != NO_TENSOR) return false;
  /* A sum that is broadcast is no addend, which lies as the result does. */
  const struct tensor *a = node_input(graph, reader, 0), *b = node_input(graph, reader, 1);
  return a->view_of < 0 && b->view_of < 0 && same_shape(a, b);
}

static neap_status find_pairs(const struct neap_graph *graph, bool bits, struct region *region,
                              struct fusion *fusion) {
  const size_t nodes = graph->nodes.count;
  fusion->into = region_alloc(region, nodes, sizeof(int32_t));
  fusion->first = region_alloc(region, nodes, sizeof(int32_t));
  RETURN_IF(!fusion->into || !fusion->first, NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  memset(fusion->into, -1, nodes * sizeof(int32_t));
  memset(fusion->first, -1, nodes * sizeof(int32_t));
  const int32_t *start, *readers;
  TRY(graph_readers(graph, region, &start, &readers));
  /* Backwards: of two convolutions that a sum reads the later one is taken, so that nothing lives longer. */
  for (size_t v = nodes; v-- > 0;) {
    const struct node *node = &graph->nodes.data[v];
    if (node->output_count != 1) continue;
    const int32_t reader = only_reader(graph, start, readers, node->outputs[0]);
    if (reader < 0 || fusion->first[reader] >= 0 || !fusible(graph, node, &graph->nodes.data[reader], bits))
      continue;
    fusion->into[v] = reader;
    fusion->first[reader] = (int32_t)v;
  }
  return NEAP_OK;
}

/* Copies the pair as one node, in the place of the second. */
static neap_status copy_pair(struct copy *copy, const struct node *a, const struct node *b) {
  if (a->op == OP_RELU) {
    struct node pool = *b;
    pool.inputs = a->inputs;
    pool.attributes.pool.relu = true;
    return copy_node(copy, pool);
  }
  struct node fused = *a;
  int32_t inputs[MAX_SLOTS];
  fused.outputs = b->outputs;
  if (b->op == OP_ADD) {
    memcpy(inputs, a->inputs, (size_t)a->input_count * sizeof *inputs);
    inputs[addend_slot(a)] = b->inputs[0] == a->outputs[0] ? b->inputs[1] : b->inputs[0];
    fused.inputs = inputs;
  } else {
    fused.attributes.batch_norm.relu = true;
    fused.attributes.batch_norm.ceiling = b->op == OP_RELU6 ? 6 : 0;
  }
  return copy_node(copy, fused);
}

static neap_status fuse_pairs(const struct neap_graph *graph, bool bits, struct neap_graph **out) {
  struct copy copy;
  TRY(copy_begin(&copy, graph, NULL));
  struct region region = {0};
  struct fusion fusion;
  neap_status status = find_pairs(graph, bits, &region, &fusion);
  for (size_t v = 0; status == NEAP_OK && v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (fusion.into[v] >= 0) continue;
    status = fusion.first[v] < 0 ? copy_node(&copy, *node)
                                 : copy_pair(&copy, &graph->nodes.data[fusion.first[v]], node);
  }
  region_free(&region);
  return copy_end(&copy, status, out);
}

/* Fuses twice, since BatchNorm takes an Add and then the ReLU after it. */
neap_status rewrite_fuse(const struct neap_graph *graph, bool bits, struct neap_graph **out) {
  struct neap_graph *pairs;
  TRY(fuse_pairs(graph, bits, &pairs));
  const neap_status status = fuse_pairs(pairs, bits, out);
  neap_graph_free(pairs);
  return status;
}
