#include "kernel/lower_step.h"

#include <string.h>

#include "kernel/ranks.h"
#include "kernel/spilled.h"

/* Maps ids to step tensors, leaving out those that are not given. */
static const int32_t *map_ids(struct region *region, const struct neap_graph *graph, const int32_t *map,
                              const int32_t *ids, int32_t count, int32_t *mapped_count) {
  int32_t *mapped_ids = region_alloc(region, (size_t)count, sizeof *mapped_ids);
  *mapped_count = 0;
  for (int32_t i = 0; mapped_ids != NULL && i < count; i++)
    if (ids[i] != NO_TENSOR) mapped_ids[(*mapped_count)++] = map[graph_storage(graph, ids[i])];
  return mapped_ids;
}

/* Returns true if the node makes a value in the bytes of a variable: a second run would add again. */
static bool adds_to_variable(const struct neap_graph *graph, const struct node *node) {
  for (int32_t i = 0; i < node->output_count; i++)
    if (graph->tensors.data[node->outputs[i]].lies_in > 0) return true;
  return false;
}

/* Returns true if a node reads the tensor in two roles: it must not be overwritten although one of them
 * allows it. */
static bool read_twice(const struct neap_graph *graph, const struct node *node, int32_t input) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (i != input && node->inputs[i] != NO_TENSOR &&
        graph_storage(graph, node->inputs[i]) == graph_storage(graph, node->inputs[input]))
      return true;
  return false;
}

/* Returns true if an input is broadcast: its elements are read again after others are made, and padding to an
 * equal size does not change that. */
static bool is_smaller(const struct neap_graph *graph, const struct node *node, struct inplace_pair pair) {
  const struct tensor *output = &graph->tensors.data[node->outputs[pair.output]];
  return node_input(graph, node, pair.input)->elements < output->elements;
}

/* Returns the row's pairs that this node has, by position among its given inputs. */
static struct inplace_pair *inplace_pairs(struct region *region, const struct neap_graph *graph,
                                          const struct node *node, int32_t *count) {
  const struct op_row *row = node_row(node);
  struct inplace_pair *own = region_alloc(region, (size_t)row->inplace_count, sizeof *own);
  *count = 0;
  for (int32_t i = 0; own != NULL && i < row->inplace_count; i++) {
    const struct inplace_pair pair = row->inplace[i];
    if (pair.output >= node->output_count || node_input(graph, node, pair.input) == NULL ||
        is_smaller(graph, node, pair) || read_twice(graph, node, pair.input) || adds_to_variable(graph, node))
      continue;
    int32_t position = 0;
    for (int32_t k = 0; k < pair.input; k++) position += node->inputs[k] != NO_TENSOR;
    own[(*count)++] = (struct inplace_pair){pair.output, position};
  }
  return own;
}

/* An additional input of a node in the step, so that all ranks run their common nodes in one order, whatever
 * their plans; NO_TENSOR: none. */
struct order {
  int32_t earlier; /* what such a node has made, which comes before this one */
  int32_t later;   /* what such a node updates, which therefore comes behind this one */
};

/* Fills `orders` [nodes]. Nodes without updates, such as sums of squares, come before those that update. */
static void order_ranks(const struct neap_graph *graph, struct order *orders) {
  int32_t made = NO_TENSOR, updated = NO_TENSOR;
  size_t first_update = graph->nodes.count;
  for (size_t v = 0; v < graph->nodes.count; v++) orders[v] = (struct order){NO_TENSOR, NO_TENSOR};
  for (size_t v = graph->nodes.count; v-- > 0;) {
    const struct node *node = &graph->nodes.data[v];
    if (node->update_count == 0 || !ranks_ordered(graph, node)) continue;
    orders[v].later = updated;
    updated = node->updates[0];
    first_update = v;
  }
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (!ranks_ordered(graph, node) || (node->update_count > 0 && v != first_update)) continue;
    orders[v].earlier = made;
    if (node->update_count == 0) made = node->outputs[0];
  }
}

static const int32_t *step_inputs(struct region *region, const struct neap_graph *graph, const int32_t *map,
                                  const struct node *node, struct order order, int32_t *count) {
  int32_t *ids = region_alloc(region, (size_t)node->input_count + 2, sizeof *ids);
  if (ids == NULL) return NULL;
  memcpy(ids, node->inputs, (size_t)node->input_count * sizeof *ids);
  ids[node->input_count] = order.earlier;
  ids[node->input_count + 1] = order.later;
  return map_ids(region, graph, map, ids, node->input_count + 2, count);
}

static neap_status step_nodes(const struct lowered *to, const double *seconds, const uint64_t *workspaces,
                              struct region *region, struct neap_step *draft, const int32_t *map) {
  const struct neap_graph *graph = to->graph;
  const struct rank_part *shared = to->rank_parts;
  struct order *orders = region_alloc(region, graph->nodes.count, sizeof *orders);
  RETURN_IF_NULL(orders);
  if (shared != NULL) order_ranks(graph, orders);
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    struct step_node *made = &draft->nodes[v];
    const struct order order = shared != NULL ? orders[v] : (struct order){NO_TENSOR, NO_TENSOR};
    const bool meets = shared != NULL && ranks_meet(graph, node);
    *made = (struct step_node){
        .name = node->name,
        .op = node_row(node)->name,
        .pass = node->pass,
        .repeatable = node->update_count == 0 && !adds_to_variable(graph, node) &&
                      (!meets || !ranks_ordered(graph, node)),
        .cost = seconds[v],
        .workspace = workspaces[v] + (shared != NULL ? memory_round_up(shared[v].workspace) : 0) +
                     (to->spilled_parts != NULL ? memory_round_up(to->spilled_parts[v].workspace) : 0)};
    made->inplace = inplace_pairs(region, graph, node, &made->inplace_count);
    made->inputs = step_inputs(region, graph, map, node, order, &made->input_count);
    made->outputs = map_ids(region, graph, map, node->outputs, node->output_count, &made->output_count);
    made->updates = map_ids(region, graph, map, node->updates, node->update_count, &made->update_count);
    RETURN_IF(!made->inplace || !made->inputs || !made->outputs || !made->updates, NEAP_OUT_OF_MEMORY,
              "lowering: out of memory");
  }
  return NEAP_OK;
}

static void add_step_output(struct neap_step *draft, int32_t *outputs, int32_t tensor) {
  for (int32_t i = 0; i < draft->output_count; i++)
    if (outputs[i] == tensor) return;
  outputs[draft->output_count++] = tensor;
}

/* Lists the step's outputs: loss, right answers and norm and, if kept, the named outputs that are not
 * resident. */
static neap_status step_outputs(const struct lowered *to, struct region *region, const int32_t *map,
                                struct neap_step *draft) {
  const struct neap_graph *graph = to->graph;
  int32_t *outputs = region_alloc(region, graph->outputs.count + 3, sizeof *outputs);
  RETURN_IF_NULL(outputs);
  draft->outputs = outputs;
  if (graph->loss >= 0) add_step_output(draft, outputs, map[graph->loss]);
  if (graph->correct >= 0) add_step_output(draft, outputs, map[graph->correct]);
  if (graph->norm >= 0) add_step_output(draft, outputs, map[graph->norm]);
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const int32_t tensor = map[graph_storage(graph, graph->outputs.data[i].tensor)];
    if (graph->tensors.data[graph->outputs.data[i].tensor].elements > to->kept_outputs) continue;
    if (draft->tensors[tensor].role == NEAP_ROLE_VALUE) add_step_output(draft, outputs, tensor);
  }
  return NEAP_OK;
}

/* Returns the bytes of a tensor: of all its copies. */
static uint64_t own_bytes(const struct lowered *to, int32_t t) {
  const struct tensor *tensor = &to->graph->tensors.data[t];
  const uint64_t one = memory_round_up(share_bytes(to->backend, tensor, to->formats[t]));
  return tensor->copies > 1 ? (uint64_t)tensor->copies * one : one;
}

/* Returns true for what lies in a variable, on disk or on another rank. */
static bool has_no_bytes(const struct tensor *t) {
  return t->lies_in > 0 || t->on_disk || t->spilled || t->elsewhere;
}

neap_status lowered_make_step(struct lowered *to, const double *seconds, const uint64_t *workspaces) {
  const struct neap_graph *graph = to->graph;
  const size_t tensors = graph->tensors.count;
  struct region region = {0}; /* of the draft */
  int32_t *map = region_alloc(&to->region, tensors, sizeof *map),
          *home = region_alloc(&to->region, tensors, sizeof *home);
  struct neap_step draft = {.name = graph->name,
                            .node_count = (int32_t)graph->nodes.count,
                            .tensors = region_alloc(&region, tensors, sizeof *draft.tensors),
                            .nodes = region_alloc(&region, graph->nodes.count, sizeof *draft.nodes)};
  neap_status status = NEAP_OK;
  if (!map || !home || !draft.tensors || !draft.nodes)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "lowering: out of memory");
  for (size_t t = 0; status == NEAP_OK && t < tensors; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    const struct tensor *storage = &graph->tensors.data[graph_storage(graph, (int32_t)t)];
    map[t] = tensor->view_of >= 0 ? map[tensor->view_of] : draft.tensor_count;
    home[t] = storage->lies_in > 0 ? map[storage->lies_in - 1] : map[t];
    if (tensor->view_of >= 0) continue;
    /* Counts no bytes for a tensor in a variable or on disk. Its tensor in the step keeps its reader behind
     * its maker. */
    draft.tensors[draft.tensor_count++] =
        (struct step_tensor){.name = tensor->name,
                             .role = tensor->role,
                             .bytes = has_no_bytes(tensor) ? 0 : own_bytes(to, (int32_t)t)};
  }
  if (status == NEAP_OK) status = step_nodes(to, seconds, workspaces, &region, &draft, map);
  if (status == NEAP_OK) status = step_outputs(to, &region, map, &draft);
  if (status == NEAP_OK) status = step_create(&draft, &to->step);
  region_free(&region);
  to->step_tensor = map;
  to->home = home;
  return status;
}
