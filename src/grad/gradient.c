#include "grad/gradient.h"

#include <stdio.h>

/* Marks what a gradient flows to: parameters that are not frozen, and values that are made from such. */
static void mark_needed(const struct neap_graph *graph, bool *needed) {
  for (size_t t = 0; t < graph->tensors.count; t++)
    needed[t] = graph->tensors.data[t].role == NEAP_ROLE_PARAMETER && !graph->tensors.data[t].frozen;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    bool any = false;
    for (int32_t i = 0; i < node->input_count; i++)
      any = any || (node->inputs[i] != NO_TENSOR && needed[graph_storage(graph, node->inputs[i])]);
    for (int32_t i = 0; i < node->output_count; i++) needed[node->outputs[i]] = any;
  }
}

static neap_status add_state(struct neap_graph *graph, int32_t parameter, const char *suffix, int32_t *id) {
  struct tensor state = graph->tensors.data[parameter];
  char name[512];
  snprintf(name, sizeof name, "%s.%s", state.name, suffix);
  state.name = name;
  state.role = NEAP_ROLE_STATE;
  state.initial = INITIAL_ZERO;
  return graph_add_tensor(graph, state, id);
}

static neap_status add_update(struct neap_graph *graph, const struct optimizer *o, int32_t parameter,
                              int32_t gradient) {
  int32_t inputs[4] = {parameter, gradient, NO_TENSOR, NO_TENSOR}, updates[3] = {parameter}, states = 0;
  const bool adam = o->kind == NEAP_ADAMW;
  static const char *const names[2][2] = {{"momentum", NULL}, {"first_moment", "second_moment"}};
  const int32_t wanted = adam ? 2 : o->momentum != 0 ? 1 : 0;
  for (; states < wanted; states++) {
    TRY(add_state(graph, parameter, names[adam][states], &inputs[2 + states]));
    updates[1 + states] = inputs[2 + states];
  }
  return graph_add_node(graph, (struct node){.name = graph->tensors.data[parameter].name,
                                             .op = adam ? OP_ADAMW : OP_SGD,
                                             .pass = NEAP_PASS_UPDATE,
                                             .attributes.update = {.momentum = o->momentum,
                                                                   .weight_decay = o->weight_decay,
                                                                   .beta1 = o->beta1,
                                                                   .beta2 = o->beta2,
                                                                   .epsilon = o->epsilon,
                                                                   .nesterov = o->nesterov},
                                             .inputs = inputs,
                                             .input_count = adam ? 4 : 3,
                                             .updates = updates,
                                             .update_count = 1 + states});
}

/* d loss / d loss = 1, as a tensor where the loss does not take that for granted. */
static neap_status seed(struct gradient *g, const struct node *node) {
  if (node_row(node)->seeds || g->of[node->outputs[0]] != NO_TENSOR || !g->needed[node->outputs[0]])
    return NEAP_OK;
  int32_t one;
  TRY(graph_add_like(g->graph, node->outputs[0], node->name, &one));
  TRY(graph_add_node(g->graph, (struct node){.name = node->name,
                                             .op = OP_FILL,
                                             .pass = NEAP_PASS_BACKWARD,
                                             .attributes.scalar = {.a = 1},
                                             .outputs = &one,
                                             .output_count = 1}));
  return gradient_add(g, node->outputs[0], one);
}

/* The backward sweep. `pending[t]`: forward nodes that read parameter t and have not been differentiated. */
static neap_status sweep(struct neap_graph *graph, const struct optimizer *optimizer, struct gradient *g,
                         int32_t *pending) {
  const size_t forward = graph->nodes.count;
  for (size_t v = 0; v < forward; v++)
    for (int32_t i = 0; i < graph->nodes.data[v].input_count; i++)
      if (graph->nodes.data[v].inputs[i] != NO_TENSOR)
        pending[graph_storage(graph, graph->nodes.data[v].inputs[i])]++;
  for (size_t v = forward; v-- > 0;) {
    const struct node node = graph->nodes.data[v]; /* a copy: the array grows */
    if (node.output_count > 0 && node.outputs[0] == graph->loss) TRY(seed(g, &node));
    bool reached = node.output_count > 0 && node.outputs[0] == graph->loss;
    for (int32_t i = 0; i < node.output_count; i++) reached = reached || g->of[node.outputs[i]] >= 0;
    if (reached && node_row(&node)->gradient != NULL) TRY(node_row(&node)->gradient(g, &node));
    for (int32_t i = 0; i < node.input_count; i++) {
      if (node.inputs[i] == NO_TENSOR) continue;
      const int32_t t = graph_storage(graph, node.inputs[i]);
      if (--pending[t] == 0 && graph->tensors.data[t].role == NEAP_ROLE_PARAMETER && g->of[t] >= 0)
        TRY(add_update(graph, optimizer, t, g->of[t]));
    }
  }
  return NEAP_OK;
}

neap_status graph_add_training(struct neap_graph *graph, const struct optimizer *optimizer) {
  const size_t tensors = graph->tensors.count;
  bool *needed = calloc(tensors, sizeof *needed);
  int32_t *of = malloc(tensors * sizeof *of), *pending = calloc(tensors, sizeof *pending);
  neap_status status;
  if (needed != NULL && of != NULL && pending != NULL) {
    for (size_t t = 0; t < tensors; t++) of[t] = -1;
    mark_needed(graph, needed);
    struct gradient gradient = {.graph = graph, .of = of, .needed = needed};
    status = sweep(graph, optimizer, &gradient, pending);
  } else {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  }
  free(needed);
  free(of);
  free(pending);
  return status;
}
