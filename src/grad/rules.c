#include "grad/rules.h"

#include "base/pattern.h"
#include "op/attention.h"
#include "op/layers.h"

/* Returns the variable or value behind views and casts. */
static int32_t behind_casts(const struct neap_graph *graph, int32_t id) {
  for (id = graph_storage(graph, id); graph->tensors.data[id].producer >= 0;) {
    const struct node *node = &graph->nodes.data[graph->tensors.data[id].producer];
    if (node->op != OP_CAST) break;
    id = graph_storage(graph, node->inputs[0]);
  }
  return id;
}

/* Returns the parameter that a linear layer or a convolution multiplies by; else NO_TENSOR. */
static int32_t weights_of(const struct neap_graph *graph, const struct node *node) {
  const bool layer =
      node->op == OP_LINEAR || node->op == OP_MATMUL || node->op == OP_CONV || node->op == OP_CONV_TRANSPOSED;
  const int32_t w = layer ? behind_casts(graph, node->inputs[1]) : NO_TENSOR;
  return w != NO_TENSOR && is_parameter(&graph->tensors.data[w]) ? w : NO_TENSOR;
}

/* Marks the weights of hidden layers that a rule of hidden matrices takes. `hidden` starts zeroed. */
static void mark_hidden(const struct neap_graph *graph, const struct optimizer *o, const bool *logits,
                        bool *hidden) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const int32_t w = weights_of(graph, node);
    if (w == NO_TENSOR || logits[graph_storage(graph, node->outputs[0])]) continue;
    const struct matrix_shape s = matrix_shape_of(&graph->tensors.data[w], node->op);
    hidden[w] = lesser(s.rows, s.columns) > (o->projection_rank > 1 ? o->projection_rank : 1);
  }
  for (size_t v = 0; v < graph->nodes.count; v++) { /* of several uses one may be another */
    const struct node *node = &graph->nodes.data[v];
    const int32_t w = weights_of(graph, node);
    if (w != NO_TENSOR && logits[graph_storage(graph, node->outputs[0])]) hidden[w] = false;
    if (node->op == OP_GATHER) hidden[behind_casts(graph, node->inputs[0])] = false;
  }
}

/* Returns the weights whose product becomes `id` row by row: by a bias, a norm of rows, a rotation; else
 * NO_TENSOR. */
static int32_t weights_behind(const struct neap_graph *graph, int32_t id) {
  for (id = graph_storage(graph, id); graph->tensors.data[id].producer >= 0;) {
    const struct node *node = &graph->nodes.data[graph->tensors.data[id].producer];
    const int32_t w = weights_of(graph, node);
    if (w != NO_TENSOR) return w;
    const bool bias =
        node->op == OP_ADD && is_parameter(&graph->tensors.data[behind_casts(graph, node->inputs[1])]);
    if (!bias && node->op != OP_CAST && node->op != OP_ROTARY && node->op != OP_ROW_NORM &&
        node->op != OP_SCALE)
      break;
    id = graph_storage(graph, node->inputs[0]);
  }
  return NO_TENSOR;
}

/* Gives the first `heads` heads of `depth` rows of what becomes tensor `id` one block each. */
static void block_heads(struct neap_graph *graph, int32_t id, int64_t heads, int64_t depth) {
  const int32_t w = weights_behind(graph, id);
  if (w == NO_TENSOR) return;
  struct tensor *t = &graph->tensors.data[w];
  if (t->rank != 2 || heads * depth > t->dims[0]) return;
  t->block = depth * t->dims[1];
  t->blocked = heads * t->block;
}

/* Chooses the blocks of second moments: a head of queries or keys, a norm's scale or shift, a row of another
 * matrix, an element of another vector. */
static void choose_blocks(struct neap_graph *graph) {
  for (size_t t = 0; t < graph->tensors.count; t++) {
    struct tensor *p = &graph->tensors.data[t];
    if (!is_parameter(p) || p->rank > 1) continue;
    p->block = 1;
    p->blocked = p->elements;
  }
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const bool norm = node->op == OP_ROW_NORM || node->op == OP_BATCH_NORM;
    for (int32_t i = 1; norm && i < node->input_count; i++) {
      if (node->inputs[i] == NO_TENSOR) continue;
      struct tensor *p = &graph->tensors.data[behind_casts(graph, node->inputs[i])];
      if (is_parameter(p)) p->block = p->blocked = p->elements;
    }
    if (node->op != OP_ATTENTION) continue;
    const struct attention_shape s = attention_shape_of(graph, node);
    const bool packed = node_input(graph, node, 1) == NULL;
    block_heads(graph, node->inputs[0], packed ? s.heads + s.key_heads : s.heads, s.depth);
    if (!packed) block_heads(graph, node->inputs[1], s.key_heads, s.depth);
  }
}

static neap_status set_rules(struct neap_graph *graph, const struct optimizer *o, const bool *hidden) {
  const struct optimizer_row *row = &optimizer_rows[o->kind];
  bool any = false;
  for (size_t t = 0; t < graph->tensors.count; t++) {
    struct tensor *p = &graph->tensors.data[t];
    if (!is_parameter(p) || p->frozen) continue;
    const bool takes = !row->hidden || hidden[t];
    p->rule = 1 + (int32_t)(takes ? o->kind : row->rest);
    p->plain = takes;
    any = any || takes;
  }
  RETURN_IF(!any, NEAP_UNSUPPORTED,
            "optimizer %s: '%s' has no trained matrix of a hidden layer with more than %d rows and columns; "
            "take %s",
            row->name, graph->name, o->projection_rank > 1 ? o->projection_rank : 1,
            optimizer_rows[row->rest].name);
  return NEAP_OK;
}

/* Chooses the parameters whose states are in blocks: large ones that are whole blocks and no embeddings.
 * Sparse values are not among them, since they change places. */
static neap_status choose_8bit(struct neap_graph *graph, const struct optimizer *o) {
  static const int64_t least = 4096; /* as bitsandbytes */
  struct pattern pattern;
  const char *list = o->states_f32;
  for (bool any = list != NULL; any;) TRY(pattern_next(&list, &pattern, &any));
  for (size_t t = 0; t < graph->tensors.count; t++) {
    struct tensor *p = &graph->tensors.data[t];
    p->states_8bit = is_parameter(p) && !p->frozen && p->elements >= least &&
                     p->elements % dtype_rows[NEAP_DYN8S].block_elements == 0 &&
                     !(o->states_f32 != NULL && pattern_list_has(o->states_f32, p->name));
  }
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op == OP_GATHER) graph->tensors.data[behind_casts(graph, node->inputs[0])].states_8bit = false;
    if (node->op == OP_DENSIFY) graph->tensors.data[node->inputs[DENSIFY_VALUES]].states_8bit = false;
  }
  for (size_t t = 0; t < graph->tensors.count; t++)
    if (graph->tensors.data[t].states_8bit) graph->tensors.data[t].plain = true;
  return NEAP_OK;
}

neap_status choose_rules(struct neap_graph *graph, const struct optimizer *o) {
  if (!optimizer_rows[o->kind].matrix && o->states_8bit) return choose_8bit(graph, o);
  if (!optimizer_rows[o->kind].matrix) return NEAP_OK;
  bool *logits = calloc(graph->tensors.count + 1, sizeof *logits),
       *hidden = calloc(graph->tensors.count + 1, sizeof *hidden);
  neap_status status = logits != NULL && hidden != NULL
                           ? NEAP_OK
                           : neap_fail(NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  if (status == NEAP_OK) {
    mark_logits(graph, logits);
    mark_hidden(graph, o, logits, hidden);
    if (o->kind == NEAP_ADAM_MINI) choose_blocks(graph);
    status = set_rules(graph, o, hidden);
  }
  free(logits);
  free(hidden);
  return status;
}
