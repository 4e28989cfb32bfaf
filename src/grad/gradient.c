#include "grad/gradient.h"

#include <fnmatch.h>
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
  state.initial = NEAP_INITIAL_ZERO;
  return graph_add_tensor(graph, state, id);
}

const struct optimizer_row optimizer_rows[OPTIMIZERS] = {
    [NEAP_SGD] = {"sgd", "momentum, Nesterov's or none", NULL, OP_SGD, {"momentum"}, 0, 0, 0},
    [NEAP_ADAMW] = {"adamw",
                    "Adam with decoupled weight decay",
                    "Loshchilov and Hutter 2019",
                    OP_ADAMW,
                    {"first_moment", "second_moment"},
                    -1,
                    0.9f,
                    0.999f},
    [NEAP_ADAM] = {"adam",
                   "first and second moments of the gradient",
                   "Kingma and Ba 2015",
                   OP_ADAM,
                   {"first_moment", "second_moment"},
                   -1,
                   0.9f,
                   0.999f},
    [NEAP_RMSPROP] = {"rmsprop",
                      "the gradient over its root mean square",
                      "Tieleman and Hinton 2012",
                      OP_RMSPROP,
                      {"square_average", "momentum"},
                      1,
                      0,
                      0.99f},
    [NEAP_LION] = {"lion",
                   "the sign of a momentum: one state",
                   "Chen et al. 2023",
                   OP_LION,
                   {"momentum"},
                   -1,
                   0.9f,
                   0.99f},
};

bool neap_optimizer_at(int32_t index, neap_row *row) {
  if (index < 0 || index >= OPTIMIZERS) return false;
  const struct optimizer_row *r = &optimizer_rows[index];
  *row = (neap_row){.name = r->name, .summary = r->summary, .source = r->source};
  return true;
}

/* A node of the graph that makes one tensor. */
static neap_status add_node(struct neap_graph *graph, enum op op, const char *name,
                            union attributes attributes, const int32_t *inputs, int32_t count,
                            struct tensor like, int32_t *output) {
  like.name = name;
  like.role = NEAP_ROLE_VALUE;
  like.view_of = -1;
  int32_t made; /* `inputs` may be where the output goes */
  TRY(graph_add_tensor(graph, like, &made));
  TRY(graph_add_node(graph, (struct node){.name = name,
                                          .op = op,
                                          .pass = NEAP_PASS_BACKWARD,
                                          .attributes = attributes,
                                          .inputs = inputs,
                                          .input_count = count,
                                          .outputs = &made,
                                          .output_count = 1}));
  *output = made;
  return NEAP_OK;
}

static neap_status clip(struct neap_graph *graph, float value, int32_t coefficient, int32_t *gradient) {
  const int32_t inputs[] = {*gradient, coefficient};
  const struct tensor like = graph->tensors.data[*gradient];
  return add_node(graph, OP_CLIP_GRADIENT, like.name, (union attributes){.scalar = {.a = value}}, inputs, 2,
                  like, gradient);
}

static neap_status add_update(struct neap_graph *graph, const struct optimizer *o, int32_t parameter,
                              int32_t gradient) {
  int32_t inputs[4] = {parameter, gradient, NO_TENSOR, NO_TENSOR}, updates[3] = {parameter}, count = 1;
  const struct optimizer_row *row = &optimizer_rows[o->kind];
  for (int32_t k = 0; k < 2 && row->states[k] != NULL; k++) {
    if (k == row->momentum_state && o->momentum == 0) continue;
    TRY(add_state(graph, parameter, row->states[k], &inputs[2 + k]));
    updates[count++] = inputs[2 + k];
  }
  struct update_attributes a = {.rate = 1,
                                .momentum = o->momentum,
                                .weight_decay = o->weight_decay,
                                .beta1 = o->beta1,
                                .beta2 = o->beta2,
                                .epsilon = o->epsilon,
                                .nesterov = o->nesterov};
  for (int i = o->group_count; i-- > 0;)
    if (fnmatch(o->groups[i].pattern, graph->tensors.data[parameter].name, 0) == 0) {
      a.rate = o->groups[i].rate;
      a.weight_decay = o->groups[i].weight_decay;
    }
  return graph_add_node(graph, (struct node){.name = graph->tensors.data[parameter].name,
                                             .op = row->op,
                                             .pass = NEAP_PASS_UPDATE,
                                             .attributes.update = a,
                                             .inputs = inputs,
                                             .input_count = row->states[1] != NULL ? 4 : 3,
                                             .updates = updates,
                                             .update_count = count});
}

/* Parameters with their gradients, in the order in which these are complete. */
struct pending_update {
  int32_t parameter, gradient;
};

/* The updates of all parameters, with gradients scaled by min(1, norm / (their norm + 1e-6)), as PyTorch's
 * clip_grad_norm_. */
static neap_status add_clipped_updates(struct neap_graph *graph, const struct optimizer *o,
                                       const struct pending_update *updates, size_t count) {
  int32_t total = NO_TENSOR;
  for (size_t i = 0; i < count; i++) {
    const struct tensor like = {.dtype = NEAP_F32, .rank = 1, .dims = {1}};
    const char *name = graph->tensors.data[updates[i].parameter].name;
    int32_t norm;
    TRY(add_node(graph, OP_SQUARED_NORM, name, (union attributes){0}, &updates[i].gradient, 1, like, &norm));
    if (total != NO_TENSOR)
      TRY(add_node(graph, OP_ADD, name, (union attributes){0}, (int32_t[]){total, norm}, 2, like, &norm));
    total = norm;
  }
  if (total == NO_TENSOR) return NEAP_OK;
  const struct tensor like = graph->tensors.data[total];
  TRY(add_node(graph, OP_CLIP_COEFFICIENT, "clip", (union attributes){.scalar = {.a = o->clip_norm}}, &total,
               1, like, &total));
  for (size_t i = 0; i < count; i++) {
    int32_t gradient = updates[i].gradient;
    TRY(clip(graph, 0, total, &gradient));
    TRY(add_update(graph, o, updates[i].parameter, gradient));
  }
  return NEAP_OK;
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
                         int32_t *pending, struct pending_update *updates) {
  const size_t forward = graph->nodes.count;
  size_t complete = 0;
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
      if (--pending[t] != 0 || graph->tensors.data[t].role != NEAP_ROLE_PARAMETER || g->of[t] < 0) continue;
      if (optimizer->clip_value != 0) TRY(clip(graph, optimizer->clip_value, NO_TENSOR, &g->of[t]));
      if (optimizer->clip_norm != 0)
        updates[complete++] = (struct pending_update){t, g->of[t]};
      else
        TRY(add_update(graph, optimizer, t, g->of[t]));
    }
  }
  return add_clipped_updates(graph, optimizer, updates, complete);
}

neap_status graph_add_training(struct neap_graph *graph, const struct optimizer *optimizer) {
  const size_t tensors = graph->tensors.count;
  bool *needed = calloc(tensors, sizeof *needed);
  int32_t *of = malloc(tensors * sizeof *of), *pending = calloc(tensors, sizeof *pending);
  struct pending_update *updates = calloc(tensors, sizeof *updates);
  neap_status status;
  if (needed != NULL && of != NULL && pending != NULL && updates != NULL) {
    for (size_t t = 0; t < tensors; t++) of[t] = -1;
    mark_needed(graph, needed);
    struct gradient gradient = {.graph = graph, .of = of, .needed = needed};
    status = sweep(graph, optimizer, &gradient, pending, updates);
  } else {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  }
  free(needed);
  free(of);
  free(pending);
  free(updates);
  return status;
}
