/* States that one prediction leaves for the next: keys and values of earlier tokens, a recurrent state. */
#include "op/builder.h"

/* Rows go into a state that differs from them at most by a longer axis 1. */
static neap_status infer_cache_write(const struct neap_graph *graph, const struct node *node,
                                     struct tensor *outputs) {
  (void)outputs; /* none exist */
  const struct tensor *state = node_input(graph, node, CACHE_STATE),
                      *rows = node_input(graph, node, CACHE_ROWS);
  TRY(need_real(graph, node, -2, "a state [N, S, ...]"));
  bool fits = rows->rank == state->rank && rows->dims[1] <= state->dims[1];
  for (int32_t i = 0; fits && i < state->rank; i++) fits = i == 1 || rows->dims[i] == state->dims[i];
  RETURN_IF(!fits, NEAP_INVALID_ARGUMENT,
            "CacheWrite '%s': rows must have the shape of state '%s' %s, or a shorter axis 1, but '%s' is %s",
            node->name, state->name, shape_text(state).text, rows->name, shape_text(rows).text);
  TRY(need_same_type(node, state, rows));
  return need_position(node, node_input(graph, node, CACHE_POSITION));
}

const struct op_row op_row_cache_write = {"CacheWrite", "some rows of a state, after all that reads it",
                                          .infer = infer_cache_write, .slots = CACHE_INPUTS,
                                          .takes = {[CACHE_POSITION] = TYPE_I32}};

neap_tensor neap_state(neap_builder *b, const char *name, neap_dtype dtype, int rank, const int64_t *dims) {
  const neap_tensor id = neap_parameter(b, name, rank, dims, (neap_parameter_options){.dtype = dtype});
  if (id < 0) return FAILED;
  struct tensor *tensor = &builder_graph(b)->tensors.data[id];
  tensor->role = NEAP_ROLE_STATE;
  tensor->carried = true;
  return id;
}

/* If `prepared`, neap_session_prepare runs it, not predictions. */
static void store(neap_builder *b, neap_tensor state, neap_tensor rows, neap_tensor position, bool prepared) {
  if (!builder_usable(b, state) || !builder_usable(b, rows)) return;
  struct neap_graph *graph = builder_graph(b);
  struct tensor *t = &graph->tensors.data[state];
  const char *name = t->name;
  if (t->role != NEAP_ROLE_STATE || !t->carried || t->view_of >= 0) {
    builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                              "'%s' is not a state (neap_state); only a state can be stored in", name));
    return;
  }
  if (position >= 0 && !builder_usable(b, position)) return;
  const int32_t inputs[CACHE_INPUTS] = {state, rows, position < 0 ? NO_TENSOR : position};
  const struct node node = {.name = name,
                            .op = OP_CACHE_WRITE,
                            .pass = NEAP_PASS_FORWARD,
                            .inputs = inputs,
                            .input_count = CACHE_INPUTS,
                            .updates = &state,
                            .update_count = 1};
  neap_status status = infer_cache_write(graph, &node, NULL);
  if (status == NEAP_OK) status = graph_add_node(graph, node);
  if (status != NEAP_OK) builder_fail(b, status);
  t->prepared = prepared;
}

void neap_store(neap_builder *b, neap_tensor state, neap_tensor rows, neap_tensor position) {
  store(b, state, rows, position, false);
}

void neap_prepare(neap_builder *b, neap_tensor state, neap_tensor rows) { store(b, state, rows, -1, true); }
