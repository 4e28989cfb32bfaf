/* Frozen parameters that stay in the model's file. */
#include "rewrite/copy.h"

/* Of fewer bytes in memory a parameter is not worth a read: measured on a disk of 0.7 GB/s, which reads one
 * page in a tenth of a millisecond. */
static const uint64_t least_bytes = 64 << 10;

static bool can_fetch(const struct neap_graph *graph, int32_t id) {
  const struct tensor *t = &graph->tensors.data[id];
  return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && t->frozen && !t->adapter && t->file_bytes > 0 &&
         t->rank == 2 && dtype_bytes(t->dtype, (uint64_t)t->elements) >= least_bytes &&
         !graph_is_output(graph, id);
}

/* Whether a node takes rows of a table that lies on disk: it reads these alone. */
static bool takes_rows(const struct copy *copy, const struct node *node) {
  const int32_t table = node->op == OP_GATHER ? node->inputs[0] : NO_TENSOR;
  return table != NO_TENSOR && can_fetch(copy->from, table);
}

static neap_status fetch_rows(struct copy *copy, const struct node *node, const int32_t *on_disk) {
  int32_t inputs[2] = {on_disk[node->inputs[0]]};
  TRY(copy_tensor(copy, node->inputs[1], &inputs[1]));
  return graph_apply(copy->to, OP_FETCH_ROWS, node->name, &node->attributes, inputs, 2,
                     &copy->map[node->outputs[0]]);
}

/* Whether a node reads a matrix that lies on disk itself, some rows at a time: the loss its weights. */
static bool reads_rows(const struct neap_graph *graph, const struct node *node, int32_t slot) {
  return node->op == OP_LINEAR_CROSS_ENTROPY && slot == LOSS_WEIGHTS &&
         graph->tensors.data[node->inputs[slot]].view_of < 0;
}

/* Copies a node; what it reads row by row is the parameter, whatever others have fetched. */
static neap_status copy_reader(struct copy *copy, const struct node *node, const int32_t *on_disk) {
  int32_t *map = NULL, fetched = NO_TENSOR;
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR && reads_rows(copy->from, node, i) &&
        on_disk[node->inputs[i]] != NO_TENSOR) {
      map = &copy->map[node->inputs[i]];
      fetched = *map;
      *map = on_disk[node->inputs[i]];
    }
  const neap_status status = copy_node(copy, *node);
  if (map != NULL) *map = fetched;
  return status;
}

/* Fetches what a node reads first. `on_disk`: by tensor of the old graph, the parameter without bytes. */
static neap_status fetch_for(struct copy *copy, const struct node *node, const int32_t *on_disk) {
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR || reads_rows(copy->from, node, i)) continue;
    const int32_t old = graph_storage(copy->from, node->inputs[i]);
    if (on_disk[old] == NO_TENSOR || copy->map[old] != on_disk[old]) continue;
    TRY(graph_apply(copy->to, OP_FETCH, copy->from->tensors.data[old].name, &(union attributes){0},
                    &on_disk[old], 1, &copy->map[old]));
  }
  return NEAP_OK;
}

static neap_status rewrite_all(struct copy *copy, int32_t *on_disk) {
  const struct neap_graph *from = copy->from;
  for (int32_t t = 0; t < (int32_t)from->tensors.count; t++) {
    on_disk[t] = can_fetch(from, t) ? copy->map[t] : NO_TENSOR;
    if (on_disk[t] != NO_TENSOR) copy->to->tensors.data[on_disk[t]].on_disk = true;
  }
  for (size_t v = 0; v < from->nodes.count; v++) {
    const struct node *node = &from->nodes.data[v];
    if (takes_rows(copy, node)) {
      TRY(fetch_rows(copy, node, on_disk));
      continue;
    }
    TRY(fetch_for(copy, node, on_disk));
    TRY(copy_reader(copy, node, on_disk));
  }
  copy->to->name = region_format(&copy->to->region, "%s" FETCH_SUFFIX, from->name);
  RETURN_IF(copy->to->name == NULL, NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", from->name);
  return NEAP_OK;
}

bool rewrite_can_fetch(const struct neap_graph *graph) {
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++)
    if (can_fetch(graph, t)) return true;
  return false;
}

neap_status rewrite_fetch(const struct neap_graph *graph, struct neap_graph **out) {
  struct copy copy;
  int32_t *on_disk = calloc(graph->tensors.count + 1, sizeof *on_disk);
  RETURN_IF(on_disk == NULL, NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  neap_status status = copy_begin(&copy, graph, NULL);
  if (status == NEAP_OK) status = copy_end(&copy, rewrite_all(&copy, on_disk), out);
  free(on_disk);
  return status;
}
