#include "grad/gradient.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "grad/rules.h"

/* Marks the tensors that a gradient reaches: unfrozen parameters, and values that are made from such. */
static void mark_needed(const struct neap_graph *graph, bool *needed) {
  for (size_t t = 0; t < graph->tensors.count; t++)
    needed[t] = graph->tensors.data[t].role == NEAP_ROLE_PARAMETER && !graph->tensors.data[t].frozen;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    bool any = false;
    for (int32_t i = 0; i < node->input_count; i++)
      any = any || (node->inputs[i] != NO_TENSOR && needed[graph_storage(graph, node->inputs[i])]);
    if (node->op == OP_STOP_GRADIENT) any = false;
    for (int32_t i = 0; i < node->output_count; i++) needed[node->outputs[i]] = any;
  }
}

/* The state of a parameter by its name, made where it does not exist. `like`: its shape, its type, and the
 * number of processes that have a share of it. */
static neap_status add_state(struct neap_graph *graph, int32_t parameter, const char *suffix,
                             struct tensor state, int32_t *id) {
  char name[512];
  state.name = graph->tensors.data[parameter].name;
  snprintf(name, sizeof name, "%s.%s", state.name, suffix);
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *known = &graph->tensors.data[t];
    *id = (int32_t)t;
    if (known->role == NEAP_ROLE_STATE && known->state_of != NULL && strcmp(known->name, name) == 0)
      return NEAP_OK;
  }
  state.state_of = state.name;
  state.name = name;
  state.role = NEAP_ROLE_STATE;
  state.initial = NEAP_INITIAL_ZERO;
  return graph_add_tensor(graph, state, id);
}

/* A state of the parameter's own shape and type. */
static struct tensor state_alike(const struct neap_graph *graph, int32_t parameter, int32_t shares) {
  struct tensor state = graph->tensors.data[parameter];
  state.shares = shares;
  return state;
}

/* In how many shares the states of a parameter lie; 0: each process has them. So it is with the values of
 * sparse parameters, which change places. */
static int32_t shares_of(const struct neap_graph *graph, const struct optimizer *o, int32_t parameter) {
  for (size_t v = 0; v < graph->nodes.count; v++)
    if (graph->nodes.data[v].op == OP_DENSIFY && graph->nodes.data[v].inputs[DENSIFY_VALUES] == parameter)
      return 0;
  return o->ranks > 1 ? o->ranks : 0;
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

/* Numbers of the optimizer for a parameter: those of the first group that it is in, or the usual ones. */
static struct update_attributes numbers_for(const struct optimizer *o, const struct tensor *parameter) {
  struct update_attributes a = {.rate = 1,
                                .momentum = o->momentum,
                                .weight_decay = o->weight_decay,
                                .beta1 = o->beta1,
                                .beta2 = o->beta2,
                                .epsilon = o->epsilon,
                                .origin = parameter->origin,
                                .nesterov = o->nesterov,
                                .projection_rank = o->projection_rank,
                                .projection_every = o->projection_every,
                                .projection_scale = o->projection_scale};
  for (int i = o->group_count; i-- > 0;)
    if (fnmatch(o->groups[i].pattern, parameter->name, 0) == 0) {
      a.rate = o->groups[i].rate;
      a.weight_decay = o->groups[i].weight_decay;
    }
  return a;
}

static neap_status add_update_node(struct neap_graph *graph, enum op op, const struct optimizer *o,
                                   const int32_t *inputs, int32_t input_count, const int32_t *updates,
                                   int32_t update_count) {
  const struct tensor *parameter = &graph->tensors.data[inputs[0]];
  struct update_attributes attributes = numbers_for(o, parameter);
  if (parameter->rate != 0) attributes.rate *= parameter->rate;
  attributes.block = parameter->block;
  attributes.blocked = parameter->blocked;
  return graph_add_node(graph, (struct node){.name = parameter->name,
                                             .op = op,
                                             .pass = NEAP_PASS_UPDATE,
                                             .attributes.update = attributes,
                                             .inputs = inputs,
                                             .input_count = input_count,
                                             .updates = updates,
                                             .update_count = update_count});
}

/* The rule that updates a parameter. */
static const struct optimizer_row *rule_of(const struct neap_graph *graph, const struct optimizer *o,
                                           int32_t parameter) {
  const int32_t rule = graph->tensors.data[parameter].rule;
  return &optimizer_rows[rule > 0 ? rule - 1 : (int32_t)o->kind];
}

/* Gives the shape of a state of a matrix rule; false: the parameter has no such state. */
static bool shape_state(const struct optimizer *o, const struct optimizer_row *row, enum state_shape shape,
                        struct tensor *state) {
  const struct matrix_shape s = matrix_shape_of(state, row->op);
  const int64_t shorter = lesser(s.rows, s.columns), longer = s.rows + s.columns - shorter;
  const bool vector = state->rank < 2;
  state->dtype = NEAP_F32;
  state->rule = 0;
  if (shape == STATE_ALIKE) return true;
  state->rank = 1;
  switch (shape) {
  case STATE_ROWS:
    state->dims[0] = s.batch * s.rows;
    return !vector;
  case STATE_COLUMNS:
    state->dims[0] = s.batch * s.columns;
    return true;
  case STATE_BLOCKS:
    state->dims[0] = block_count(&s);
    return true;
  case STATE_PROJECTED:
    state->rank = 2;
    state->dims[0] = longer;
    state->dims[1] = o->projection_rank;
    return true;
  case STATE_PROJECTION:
    state->rank = 2;
    state->dims[0] = o->projection_rank;
    state->dims[1] = shorter;
    return true;
  case STATE_ONE:
    state->dims[0] = 1;
    return true;
  case STATE_ALIKE:
  case STATE_NONE:
    break;
  }
  return false;
}

/* The states that the rule has for a parameter; NO_TENSOR: not that one. */
static neap_status add_states(struct neap_graph *graph, const struct optimizer *o, int32_t parameter,
                              int32_t states[RULE_STATES]) {
  const struct optimizer_row *row = rule_of(graph, o, parameter);
  const bool blocks = graph->tensors.data[parameter].states_8bit;
  for (int32_t k = 0; k < RULE_STATES; k++) {
    struct tensor state =
        state_alike(graph, parameter, row->matrix || blocks ? 0 : shares_of(graph, o, parameter));
    if (blocks) state.dtype = row->without_sign >> k & 1 ? NEAP_DYN8U : NEAP_DYN8S;
    states[k] = NO_TENSOR;
    if (row->states[k] == NULL || (k == row->momentum_state && o->momentum == 0)) continue;
    if (row->matrix && !shape_state(o, row, row->shapes[k], &state)) continue;
    TRY(add_state(graph, parameter, row->states[k], state, &states[k]));
  }
  return NEAP_OK;
}

static neap_status add_update(struct neap_graph *graph, const struct optimizer *o, int32_t parameter,
                              int32_t gradient) {
  enum { FIRST = 2 };
  int32_t inputs[FIRST + RULE_STATES] = {parameter, gradient}, updates[1 + RULE_STATES] = {parameter},
                         count = 1, used = 1;
  const struct optimizer_row *row = rule_of(graph, o, parameter);
  TRY(add_states(graph, o, parameter, &inputs[FIRST]));
  for (int32_t k = 0; k < RULE_STATES; k++) {
    if (inputs[FIRST + k] != NO_TENSOR) updates[count++] = inputs[FIRST + k];
    if (row->states[k] != NULL) used = k + 1;
  }
  return add_update_node(graph, row->op, o, inputs, FIRST + used, updates, count);
}

/* ---- A step of several micro-batches ---- */

bool step_in_parts(const struct optimizer *o) {
  return o->micro_batches > 1 || o->sparse || o->tentative || o->perturbs;
}

/* SGD with momentum adds gradients to the momentum itself: it is scaled before and read after them. */
static bool sums_in_momentum(const struct optimizer *o) {
  return o->kind == NEAP_SGD && !o->states_8bit && o->momentum != 0 && !o->nesterov && o->clip_value == 0 &&
         o->clip_norm == 0 && !o->tentative && !o->norm;
}

static neap_status add_sum(struct neap_graph *graph, const struct optimizer *o, int32_t parameter,
                           int32_t *sum) {
  TRY(add_state(graph, parameter, "gradient_sum",
                state_alike(graph, parameter, shares_of(graph, o, parameter)), sum));
  graph->tensors.data[*sum].sum = true;
  graph->tensors.data[*sum].dtype = NEAP_F32;
  return NEAP_OK;
}

/* Finds the state in which the gradients of a parameter are added up; creates the parameter's states. */
static neap_status find_sum(struct neap_graph *graph, const struct optimizer *o, int32_t parameter,
                            int32_t *sum) {
  int32_t states[RULE_STATES];
  TRY(add_states(graph, o, parameter, states));
  *sum = states[0];
  return sums_in_momentum(o) ? NEAP_OK : add_sum(graph, o, parameter, sum);
}

static neap_status accumulate(struct neap_graph *graph, const struct optimizer *o, int32_t parameter,
                              int32_t gradient) {
  int32_t sum;
  TRY(find_sum(graph, o, parameter, &sum));
  return add_update_node(graph, OP_ACCUMULATE, o, (int32_t[]){parameter, gradient, sum}, 3, &sum, 1);
}

/* The same for a dense gradient of a parameter that a node made dense. */
static neap_status accumulate_sparse(struct neap_graph *graph, const struct optimizer *o,
                                     const struct node *densify, int32_t gradient) {
  const int32_t *in = densify->inputs;
  const struct update_attributes own = numbers_for(o, &(struct tensor){.name = densify->name}),
                                 all = numbers_for(o, &graph->tensors.data[in[DENSIFY_VALUES]]);
  RETURN_IF(own.rate != all.rate || own.weight_decay != all.weight_decay, NEAP_UNSUPPORTED,
            "a group of parameters contains '%s', which is sparse: all sparse parameters need one rate and "
            "one decay, those of the group of '%s'",
            densify->name, graph->tensors.data[in[DENSIFY_VALUES]].name);
  int32_t inputs[SPARSE_INPUTS] = {in[DENSIFY_VALUES],    gradient,           NO_TENSOR, in[DENSIFY_OFFSET],
                                   in[DENSIFY_POSITIONS], in[DENSIFY_INDICES]};
  TRY(find_sum(graph, o, in[DENSIFY_VALUES], &inputs[SPARSE_SUM]));
  return add_update_node(graph, OP_ACCUMULATE_SPARSE, o, inputs, SPARSE_INPUTS, &inputs[SPARSE_OFFSET], 1);
}

/* Parameters with their gradients, in the order in which these are complete. */
struct pending_update {
  int32_t parameter, gradient;
};

/* Adds the squares of a gradient to a sum; NO_TENSOR: none exists yet. */
static neap_status add_squares(struct neap_graph *graph, int32_t parameter, int32_t gradient,
                               int32_t *total) {
  const struct tensor like = {.dtype = NEAP_F32, .rank = 1, .dims = {1}};
  const char *name = graph->tensors.data[parameter].name;
  int32_t norm;
  TRY(add_node(graph, OP_SQUARED_NORM, name, (union attributes){0}, &gradient, 1, like, &norm));
  if (*total != NO_TENSOR)
    TRY(add_node(graph, OP_ADD, name, (union attributes){0}, (int32_t[]){*total, norm}, 2, like, &norm));
  *total = norm;
  return NEAP_OK;
}

/* The updates of all parameters behind the squares of all gradients; where these are clipped, scaled by
 * min(1, norm / (their norm + 1e-6)), as PyTorch's clip_grad_norm_. */
static neap_status add_later_updates(struct neap_graph *graph, const struct optimizer *o,
                                     const struct pending_update *updates, size_t count) {
  int32_t total = NO_TENSOR;
  for (size_t i = 0; i < count; i++)
    TRY(add_squares(graph, updates[i].parameter, updates[i].gradient, &total));
  if (o->norm && total != NO_TENSOR) graph->norm = total;
  if (total == NO_TENSOR) return NEAP_OK;
  const struct tensor like = graph->tensors.data[total];
  if (o->clip_norm != 0)
    TRY(add_node(graph, OP_CLIP_COEFFICIENT, "clip", (union attributes){.scalar = {.a = o->clip_norm}},
                 &total, 1, like, &total));
  for (size_t i = 0; i < count; i++) {
    int32_t gradient = updates[i].gradient;
    if (o->clip_norm != 0) TRY(clip(graph, 0, total, &gradient));
    TRY(add_update(graph, o, updates[i].parameter, gradient));
  }
  return NEAP_OK;
}

/* d loss / d loss, as a tensor: 1 where the loss does not take that for granted; what the run tells
 * (a micro-batch's share, a loss scale). */
static neap_status seed(struct gradient *g, const struct node *node, bool told) {
  if ((node_row(node)->seeds && !told) || g->of[node->outputs[0]] != NO_TENSOR ||
      !g->needed[node->outputs[0]])
    return NEAP_OK;
  int32_t one;
  TRY(graph_add_like(g->graph, node->outputs[0], node->name, &one));
  TRY(graph_add_node(g->graph, (struct node){.name = node->name,
                                             .op = told ? OP_LOSS_SHARE : OP_FILL,
                                             .pass = NEAP_PASS_BACKWARD,
                                             .attributes.scalar = {.a = 1},
                                             .outputs = &one,
                                             .output_count = 1}));
  return gradient_add(g, node->outputs[0], one);
}

/* Makes the gradient of a value 0 outside its kept rows. */
static neap_status keep_rows(struct gradient *g, int32_t value) {
  struct neap_graph *graph = g->graph;
  const struct tensor t = graph->tensors.data[value];
  if (t.kept_rows == 0 || g->of[value] == NO_TENSOR) return NEAP_OK;
  const int32_t rows = t.kept_rows - 1;
  const union attributes a = graph->nodes.data[graph->tensors.data[rows].producer].attributes;
  const int64_t width = t.dims[t.rank - 1], length = a.kept_rows.length,
                dims[] = {t.elements / (length * width), length, width};
  int32_t dy;
  TRY(graph_add_view(graph, g->of[value], 3, dims, &dy));
  TRY(gradient_apply(g, OP_GATHER_ROWS, t.name, (union attributes){0}, (int32_t[]){dy, rows}, 2, &dy));
  TRY(gradient_apply(g, OP_SCATTER_ROWS, t.name, a, (int32_t[]){dy, rows}, 2, &dy));
  return graph_add_view(graph, dy, t.rank, t.dims, &g->of[value]);
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
    if (node.output_count > 0 && node.outputs[0] == graph->loss)
      TRY(seed(g, &node, step_in_parts(optimizer) || optimizer->scaled));
    for (int32_t i = 0; i < node.output_count; i++) TRY(keep_rows(g, node.outputs[i]));
    bool reached = node.output_count > 0 && node.outputs[0] == graph->loss;
    for (int32_t i = 0; i < node.output_count; i++) reached = reached || g->of[node.outputs[i]] >= 0;
    if (reached && node_row(&node)->gradient != NULL) TRY(node_row(&node)->gradient(g, &node));
    if (node.op == OP_DENSIFY && reached)
      TRY(accumulate_sparse(graph, optimizer, &node, g->of[node.outputs[0]]));
    for (int32_t i = 0; i < node.input_count; i++) {
      if (node.inputs[i] == NO_TENSOR) continue;
      const int32_t t = graph_storage(graph, node.inputs[i]);
      if (--pending[t] != 0 || graph->tensors.data[t].role != NEAP_ROLE_PARAMETER || g->of[t] < 0) continue;
      if (step_in_parts(optimizer)) {
        TRY(accumulate(graph, optimizer, t, g->of[t]));
        continue;
      }
      if (optimizer->clip_value != 0) TRY(clip(graph, optimizer->clip_value, NO_TENSOR, &g->of[t]));
      if (optimizer->clip_norm != 0) {
        updates[complete++] = (struct pending_update){t, g->of[t]};
        continue;
      }
      if (optimizer->norm) TRY(add_squares(graph, t, g->of[t], &graph->norm));
      TRY(add_update(graph, optimizer, t, g->of[t]));
    }
  }
  return add_later_updates(graph, optimizer, updates, complete);
}

/* A state beside each trained parameter that has an update, for its average. `of`: gradients; NULL: perturbed
 * parameters have updates. */
static neap_status add_averages(struct neap_graph *graph, const int32_t *of, size_t tensors) {
  for (size_t t = 0; t < tensors; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    int32_t average;
    if (tensor->role != NEAP_ROLE_PARAMETER || tensor->view_of >= 0 || tensor->frozen) continue;
    if (of != NULL ? of[t] < 0 : !tensor->perturbed) continue;
    RETURN_IF(tensor->dtype != NEAP_F32 && tensor->dtype != NEAP_F64, NEAP_UNSUPPORTED,
              "cannot average '%s', which has type %s: only parameters of f32 have averages; give `master`",
              tensor->name, dtype_rows[tensor->dtype].name);
    TRY(add_state(graph, (int32_t)t, AVERAGE_SUFFIX, *tensor, &average));
    graph->tensors.data[average].average = true;
  }
  return NEAP_OK;
}

neap_status graph_add_training(struct neap_graph *graph, const struct optimizer *optimizer) {
  if (optimizer->perturbs)
    return optimizer->averages ? add_averages(graph, NULL, graph->tensors.count) : NEAP_OK;
  TRY(choose_rules(graph, optimizer));
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
    if (status == NEAP_OK && optimizer->averages) status = add_averages(graph, of, tensors);
  } else {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  }
  free(needed);
  free(of);
  free(pending);
  free(updates);
  return status;
}

/* ---- Before and after the micro-batches ---- */

/* A graph with the parameters and states of the training graph, and for each of its sums, in order, what
 * `add` appends. The pool of sparse parameters has one, which several nodes add to. */
typedef neap_status add_for_sum(struct neap_graph *graph, const struct optimizer *optimizer,
                                int32_t parameter, int32_t sum, struct pending_update *updates,
                                size_t *count);

static neap_status copy_variables(const struct neap_graph *from, struct neap_graph *to, int32_t *map) {
  for (size_t t = 0; t < from->tensors.count; t++) {
    const struct tensor *tensor = &from->tensors.data[t];
    const bool variable = tensor->role == NEAP_ROLE_PARAMETER || tensor->role == NEAP_ROLE_STATE;
    if (variable && tensor->view_of < 0) TRY(graph_add_tensor(to, *tensor, &map[t]));
  }
  return NEAP_OK;
}

/* The inputs that say where sparse parameters have their values, in the parameters' order, as updates of
 * their pool take them (UPDATE_SLOTS). */
struct position_inputs {
  int32_t pool; /* NO_TENSOR: none exist, or their values are not rounded */
  VECTOR(int32_t) ids;
};

static bool is_16_bit(neap_dtype dtype) { return type_set_has(TYPES_HALF, dtype); }

static neap_status list_positions(const struct neap_graph *training, const int32_t *map,
                                  struct position_inputs *list) {
  for (size_t v = 0; v < training->nodes.count; v++) {
    const struct node *node = &training->nodes.data[v];
    const int32_t *in = node->inputs;
    if (node->op != OP_DENSIFY || !is_16_bit(training->tensors.data[in[DENSIFY_VALUES]].dtype)) continue;
    if (list->pool == NO_TENSOR) {
      list->pool = map[in[DENSIFY_VALUES]];
      for (int32_t i = 0; i < UPDATE_SLOTS; i++) TRY(vector_push(&list->ids, NO_TENSOR));
      TRY(vector_push(&list->ids, in[DENSIFY_INDICES] == NO_TENSOR ? NO_TENSOR : map[in[DENSIFY_INDICES]]));
    }
    TRY(vector_push(&list->ids, map[in[DENSIFY_OFFSET]]));
    TRY(vector_push(&list->ids, map[in[DENSIFY_POSITIONS]]));
  }
  return NEAP_OK;
}

/* Gives them to the updates of the pool. */
static neap_status add_positions(const struct neap_graph *training, const int32_t *map,
                                 struct neap_graph *graph) {
  struct position_inputs list = {.pool = NO_TENSOR};
  neap_status status = list_positions(training, map, &list);
  for (size_t v = 0; status == NEAP_OK && list.pool != NO_TENSOR && v < graph->nodes.count; v++) {
    struct node *node = &graph->nodes.data[v];
    if (node->update_count == 0 || node->inputs[0] != list.pool) continue;
    int32_t *inputs = region_copy(&graph->region, list.ids.data, list.ids.count, sizeof *inputs);
    if (inputs != NULL) {
      memcpy(inputs, node->inputs, (size_t)node->input_count * sizeof *inputs);
      node->inputs = inputs;
      node->input_count = (int32_t)list.ids.count;
    } else {
      status = neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
    }
  }
  vector_free(&list.ids);
  return status;
}

static neap_status add_all(const struct neap_graph *training, const struct optimizer *optimizer,
                           add_for_sum *add, struct neap_graph *graph, int32_t *map,
                           struct pending_update *updates) {
  size_t count = 0;
  bool pool_done = false;
  TRY(copy_variables(training, graph, map));
  for (size_t t = 0; optimizer->perturbs && t < training->tensors.count; t++)
    if (training->tensors.data[t].perturbed) TRY(add_update(graph, optimizer, map[t], NO_TENSOR));
  for (size_t v = 0; v < training->nodes.count; v++) {
    const struct node *node = &training->nodes.data[v];
    const bool sparse = node->op == OP_ACCUMULATE_SPARSE;
    if (sparse && pool_done) continue;
    pool_done = pool_done || sparse;
    if (node->op == OP_ACCUMULATE || sparse)
      TRY(add(graph, optimizer, map[node->inputs[0]], map[node->inputs[2]], updates, &count));
  }
  TRY(add_later_updates(graph, optimizer, updates, count));
  return add_positions(training, map, graph);
}

static neap_status make_around(const struct neap_graph *training, const struct optimizer *optimizer,
                               add_for_sum *add, struct neap_graph **out) {
  struct neap_graph *graph;
  TRY(graph_create(training->name, &graph));
  graph->loss = graph->correct = graph->norm = -1;
  int32_t *map = malloc((training->tensors.count + 1) * sizeof *map);
  struct pending_update *updates = calloc(training->tensors.count + 1, sizeof *updates);
  const neap_status status = map != NULL && updates != NULL
                                 ? add_all(training, optimizer, add, graph, map, updates)
                                 : neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", training->name);
  free(map);
  free(updates);
  if (status != NEAP_OK) {
    neap_graph_free(graph);
    return status;
  }
  *out = graph;
  return NEAP_OK;
}

static neap_status add_begin(struct neap_graph *graph, const struct optimizer *o, int32_t parameter,
                             int32_t sum, struct pending_update *updates, size_t *count) {
  (void)updates, (void)count;
  if (sums_in_momentum(o))
    return add_update_node(graph, OP_MOMENTUM_BEGIN, o, (int32_t[]){parameter, sum}, 2, &sum, 1);
  return add_update_node(graph, OP_CLEAR, o, &sum, 1, &sum, 1);
}

static neap_status add_end(struct neap_graph *graph, const struct optimizer *o, int32_t parameter,
                           int32_t sum, struct pending_update *updates, size_t *count) {
  if (sums_in_momentum(o))
    return add_update_node(graph, OP_MOMENTUM_END, o, (int32_t[]){parameter, sum}, 2, &parameter, 1);
  if (o->clip_value != 0) TRY(clip(graph, o->clip_value, NO_TENSOR, &sum));
  if (o->clip_norm == 0 && !o->norm) return add_update(graph, o, parameter, sum);
  updates[(*count)++] = (struct pending_update){parameter, sum};
  return NEAP_OK;
}

neap_status graph_begin_step(const struct neap_graph *training, const struct optimizer *optimizer,
                             struct neap_graph **out) {
  return make_around(training, optimizer, add_begin, out);
}

neap_status graph_end_step(const struct neap_graph *training, const struct optimizer *optimizer,
                           struct neap_graph **out) {
  return make_around(training, optimizer, add_end, out);
}
