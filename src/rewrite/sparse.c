/* Makes parameters sparse: they keep a share of their values. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "rewrite/copy.h"

/* A parameter that becomes sparse, by its id in the old graph. */
struct sparse_parameter {
  int32_t old, offset, positions;
};

struct sparse {
  struct copy copy;
  double density;
  int32_t values, indices; /* the pools; NO_TENSOR: positions are bits */
  VECTOR(struct sparse_parameter) list;
};

int64_t sparse_count(int64_t elements, double density) {
  const int64_t count = (int64_t)(density * (double)elements + 0.5);
  return count < 1 ? 1 : count;
}

static bool may_be_sparse(const struct tensor *t) {
  return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && !t->frozen && t->rank >= 2;
}

/* Returns the storage of the weights of an `op` node, before a cast; NO_TENSOR for another operator. */
static int32_t weights_of(const struct neap_graph *graph, const struct node *node, enum op op) {
  if (node->op != (int32_t)op) return NO_TENSOR;
  const int32_t w = graph_storage(graph, node->inputs[1]), producer = graph->tensors.data[w].producer;
  if (producer < 0 || graph->nodes.data[producer].op != OP_CAST) return w;
  return graph_storage(graph, graph->nodes.data[producer].inputs[0]);
}

/* Marks all convolutions except the first; in a network without any, all linear and recurrent layers except
 * the last linear one. */
static void mark_usual(const struct neap_graph *graph, bool *marked) {
  bool first = true;
  int32_t last = NO_TENSOR;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const int32_t w = weights_of(graph, &graph->nodes.data[v], OP_CONV);
    if (w == NO_TENSOR) continue;
    marked[w] = !first;
    first = false;
  }
  for (size_t v = 0; first && v < graph->nodes.count; v++) {
    static const enum op layers[] = {OP_LINEAR, OP_LSTM, OP_GRU};
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
      const int32_t w = weights_of(graph, &graph->nodes.data[v], layers[k]);
      if (w == NO_TENSOR) continue;
      marked[w] = true;
      if (layers[k] == OP_LINEAR) last = w;
    }
  }
  if (last != NO_TENSOR) marked[last] = false;
}

static neap_status mark(const struct neap_graph *graph, const char *pattern, bool *marked, int64_t *count) {
  if (pattern == NULL) mark_usual(graph, marked);
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    if (pattern != NULL) marked[t] = fnmatch(pattern, tensor->name, 0) == 0;
    marked[t] = marked[t] && may_be_sparse(tensor);
    *count += marked[t];
  }
  RETURN_IF(*count == 0, NEAP_INVALID_ARGUMENT,
            "sparse weights: '%s' has no parameter that %s%s%s and can be sparse; it must be trained and "
            "have two dimensions or more",
            graph->name, pattern != NULL ? "is named '" : "is one of the usual weights",
            pattern != NULL ? pattern : "", pattern != NULL ? "'" : "");
  return NEAP_OK;
}

/* Returns true if positions are indices; unless this is given, the smaller form is used. Indices are next to
 * the values, which move between layers in training, so all layers have the same form. */
static bool has_indices(const struct neap_graph *graph, const bool *marked, double density,
                        neap_sparse_positions positions) {
  uint64_t bits = 0, indices = 0;
  if (positions != NEAP_SPARSE_SMALLER) return positions == NEAP_SPARSE_INDICES;
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const int64_t elements = graph->tensors.data[t].elements;
    if (!marked[t]) continue;
    bits += dtype_bytes(NEAP_BIT, (uint64_t)elements);
    indices += dtype_bytes(NEAP_BLOCK, (uint64_t)elements) +
               dtype_bytes(NEAP_U16, (uint64_t)sparse_count(elements, density));
  }
  return indices < bits;
}

/* Adds a state of a sparse parameter. */
static neap_status add_state(struct sparse *s, const struct tensor *parameter, const char *suffix,
                             neap_dtype dtype, bool scalar, int32_t *id) {
  struct tensor state = *parameter;
  char name[512];
  snprintf(name, sizeof name, "%s.%s", parameter->name, suffix);
  state.name = name;
  state.role = NEAP_ROLE_STATE;
  state.state_of = parameter->name;
  state.dtype = dtype;
  state.initial = NEAP_INITIAL_ZERO;
  if (scalar) {
    state.rank = 1;
    state.dims[0] = 1;
  }
  return graph_add_tensor(s->copy.to, state, id);
}

/* Adds the pools and the states of each parameter. */
static neap_status add_residents(struct sparse *s, const bool *marked, neap_sparse_positions positions) {
  const struct neap_graph *from = s->copy.from;
  struct tensor pool = {.name = SPARSE_POOL, .role = NEAP_ROLE_PARAMETER, .rank = 1, .view_of = -1};
  for (size_t t = 0; t < from->tensors.count; t++) {
    const struct tensor *tensor = &from->tensors.data[t];
    if (!marked[t]) continue;
    RETURN_IF(pool.dims[0] > 0 && pool.dtype != tensor->dtype, NEAP_UNSUPPORTED,
              "sparse weights: '%s' is of %s, others are of %s; all must have one type", tensor->name,
              dtype_rows[tensor->dtype].name, dtype_rows[pool.dtype].name);
    pool.dtype = tensor->dtype;
    pool.dims[0] += sparse_count(tensor->elements, s->density);
  }
  RETURN_IF(pool.dims[0] > INT32_MAX, NEAP_TOO_LARGE,
            "sparse weights: %lld values exceed the limit of 2^31 - 1", (long long)pool.dims[0]);
  TRY(graph_add_tensor(s->copy.to, pool, &s->values));
  const bool indices = has_indices(from, marked, s->density, positions);
  if (indices) {
    pool.name = SPARSE_INDEX_POOL;
    pool.role = NEAP_ROLE_STATE;
    pool.dtype = NEAP_U16;
    TRY(graph_add_tensor(s->copy.to, pool, &s->indices));
  }
  for (size_t t = 0; t < from->tensors.count; t++) {
    const struct tensor *tensor = &from->tensors.data[t];
    struct sparse_parameter p = {.old = (int32_t)t};
    if (!marked[t]) continue;
    TRY(add_state(s, tensor, "offset", NEAP_I32, true, &p.offset));
    TRY(add_state(s, tensor, "positions", indices ? NEAP_BLOCK : NEAP_BIT, false, &p.positions));
    TRY(vector_push(&s->list, p));
  }
  return NEAP_OK;
}

/* Makes the dense tensors that a node reads. */
static neap_status densify_for(struct sparse *s, const struct node *node) {
  const struct neap_graph *from = s->copy.from;
  for (int32_t i = 0; i < node->input_count; i++)
    for (size_t k = 0; node->inputs[i] != NO_TENSOR && k < s->list.count; k++) {
      const struct sparse_parameter *p = &s->list.data[k];
      if (p->old != graph_storage(from, node->inputs[i]) || s->copy.map[p->old] >= 0) continue;
      struct tensor dense = from->tensors.data[p->old];
      dense.role = NEAP_ROLE_VALUE;
      TRY(graph_add_tensor(s->copy.to, dense, &s->copy.map[p->old]));
      const int32_t inputs[DENSIFY_INPUTS] = {s->values, p->offset, p->positions, s->indices};
      TRY(graph_add_node(s->copy.to, (struct node){.name = dense.name,
                                                   .op = OP_DENSIFY,
                                                   .pass = NEAP_PASS_FORWARD,
                                                   .inputs = inputs,
                                                   .input_count = DENSIFY_INPUTS,
                                                   .outputs = &s->copy.map[p->old],
                                                   .output_count = 1}));
    }
  return NEAP_OK;
}

static neap_status rewrite_all(struct sparse *s, const bool *marked, neap_sparse_positions positions) {
  TRY(add_residents(s, marked, positions));
  for (size_t v = 0; v < s->copy.from->nodes.count; v++) {
    TRY(densify_for(s, &s->copy.from->nodes.data[v]));
    TRY(copy_node(&s->copy, s->copy.from->nodes.data[v]));
  }
  return NEAP_OK;
}

neap_status rewrite_sparse(const struct neap_graph *graph, double density, const char *pattern,
                           neap_sparse_positions positions, struct neap_graph **out) {
  struct sparse s = {.density = density, .values = NO_TENSOR, .indices = NO_TENSOR};
  int64_t count = 0;
  bool *marked = calloc(graph->tensors.count + 1, sizeof *marked),
       *wanted = calloc(graph->tensors.count + 1, sizeof *wanted);
  neap_status status = NEAP_OK;
  if (marked == NULL || wanted == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  if (status == NEAP_OK) status = mark(graph, pattern, marked, &count);
  for (size_t t = 0; status == NEAP_OK && t < graph->tensors.count; t++) wanted[t] = !marked[t];
  if (status == NEAP_OK) status = copy_begin(&s.copy, graph, wanted);
  if (status == NEAP_OK) {
    status = rewrite_all(&s, marked, positions);
    status = copy_end(&s.copy, status, out);
  }
  vector_free(&s.list);
  free(marked);
  free(wanted);
  return status;
}
