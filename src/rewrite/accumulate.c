#include "rewrite/copy.h"

/* A node's place in the chain of nodes that add up a parameter's gradient. */
struct place {
  int32_t update; /* the update at the end of its chain, or itself; -1: it is in none */
  bool first;
};

struct accumulation {
  struct copy copy;
  struct place *places; /* by node */
  const int32_t *start, *readers;
};

static bool is_plain_f32(const struct neap_graph *graph, int32_t id) {
  const struct tensor *t = &graph->tensors.data[id];
  return t->dtype == NEAP_F32 && t->rank <= 2 && t->view_of < 0;
}

static bool has_momentum_to_add_to(const struct neap_graph *graph, const struct node *node) {
  return node->op == OP_SGD && node->inputs[2] != NO_TENSOR && !node->attributes.update.nesterov &&
         is_plain_f32(graph, node->inputs[0]) && is_plain_f32(graph, node->inputs[2]);
}

/* Returns the slot of the tensor that a node adds its result to, or -1. A sum of two continues its first
 * operand, which came earlier. */
static int32_t addend_slot(const struct neap_graph *graph, const struct node *node) {
  if (node->op == OP_ADD) return same_shape(node_input(graph, node, 0), node_input(graph, node, 1)) ? 0 : -1;
  return node_row(node)->addend - 1;
}

/* Returns the node that makes tensor `id` by adding to another one, if `id` has one reader; else -1. */
static int32_t adding_producer(const struct accumulation *a, int32_t id) {
  const struct neap_graph *graph = a->copy.from;
  const int32_t v = graph->tensors.data[id].producer;
  if (v < 0 || !is_plain_f32(graph, id) || a->start[id + 1] - a->start[id] != 1) return -1;
  return graph->nodes.data[v].output_count == 1 && addend_slot(graph, &graph->nodes.data[v]) >= 0 ? v : -1;
}

/* Marks the chain that ends in the update, if two or more nodes add to it. */
static void mark_chain(struct accumulation *a, int32_t update) {
  const struct node *nodes = a->copy.from->nodes.data;
  const int32_t gradient = nodes[update].inputs[1];
  int32_t id = gradient, first = -1, shares = 0;
  for (int32_t v; id != NO_TENSOR && (v = adding_producer(a, id)) >= 0; shares++) {
    first = v;
    id = nodes[v].inputs[addend_slot(a->copy.from, &nodes[v])];
  }
  shares += id != NO_TENSOR; /* what the first node adds to */
  if (first < 0 || shares < 2) return;
  a->places[update].update = update;
  a->places[first].first = true;
  id = gradient;
  for (int32_t v = -1; v != first; id = nodes[v].inputs[addend_slot(a->copy.from, &nodes[v])]) {
    v = a->copy.from->tensors.data[id].producer;
    a->places[v].update = update;
  }
}

/* Appends a node whose value is stored in the momentum of the update. */
static neap_status add_in_momentum(struct accumulation *a, const struct node *update, struct node node,
                                   int32_t *output) {
  struct neap_graph *to = a->copy.to;
  const int32_t momentum = a->copy.map[update->inputs[2]];
  TRY(graph_add_like(to, momentum, node.name, output));
  to->tensors.data[*output].state_of = NULL;
  to->tensors.data[*output].lies_in = 1 + momentum;
  node.pass = NEAP_PASS_BACKWARD;
  node.outputs = output;
  node.output_count = 1;
  return graph_add_node(to, node);
}

/* Copies a node of the chain; its slot takes `before`. */
static neap_status copy_adding(struct accumulation *a, const struct node *update, const struct node *node,
                               int32_t slot, int32_t before, int32_t *output) {
  struct copy *c = &a->copy;
  struct node copy = *node;
  c->ids.count = 0;
  TRY(vector_reserve(&c->ids, (size_t)node->input_count + 1));
  for (int32_t i = 0; i < node->input_count; i++)
    if (i == slot)
      c->ids.data[i] = before;
    else
      TRY(copy_tensor(c, node->inputs[i], &c->ids.data[i]));
  copy.inputs = c->ids.data;
  return add_in_momentum(a, update, copy, output);
}

static neap_status begin_chain(struct accumulation *a, const struct node *update, const struct node *first,
                               int32_t slot, int32_t *before) {
  const int32_t inputs[] = {a->copy.map[update->inputs[0]], a->copy.map[update->inputs[2]]};
  TRY(add_in_momentum(a, update,
                      (struct node){.name = update->name,
                                    .op = OP_MOMENTUM_BEGIN,
                                    .attributes = update->attributes,
                                    .inputs = inputs,
                                    .input_count = 2},
                      before));
  if (first->inputs[slot] == NO_TENSOR) return NEAP_OK;
  int32_t shares[] = {*before, NO_TENSOR};
  TRY(copy_tensor(&a->copy, first->inputs[slot], &shares[1]));
  return add_in_momentum(
      a, update, (struct node){.name = update->name, .op = OP_ADD, .inputs = shares, .input_count = 2},
      before);
}

static neap_status accumulate_node(struct accumulation *a, int32_t v) {
  const struct neap_graph *from = a->copy.from;
  const struct node *node = &from->nodes.data[v];
  if (a->places[v].update < 0) return copy_node(&a->copy, *node);
  const struct node *update = &from->nodes.data[a->places[v].update];
  if (node == update) {
    struct node end = *node;
    end.op = OP_MOMENTUM_END;
    end.input_count = 2;
    return copy_node(&a->copy, end);
  }
  const int32_t slot = addend_slot(from, node);
  int32_t before;
  if (a->places[v].first)
    TRY(begin_chain(a, update, node, slot, &before));
  else
    TRY(copy_tensor(&a->copy, node->inputs[slot], &before));
  return copy_adding(a, update, node, slot, before, &a->copy.map[node->outputs[0]]);
}

static neap_status accumulate_all(struct accumulation *a, struct region *region) {
  const struct neap_graph *from = a->copy.from;
  a->places = region_alloc(region, from->nodes.count, sizeof *a->places);
  RETURN_IF_NULL(a->places);
  TRY(graph_readers(from, region, &a->start, &a->readers));
  for (size_t v = 0; v < from->nodes.count; v++) a->places[v] = (struct place){.update = -1};
  for (size_t v = 0; v < from->nodes.count; v++)
    if (has_momentum_to_add_to(from, &from->nodes.data[v])) mark_chain(a, (int32_t)v);
  for (size_t v = 0; v < from->nodes.count; v++) TRY(accumulate_node(a, (int32_t)v));
  return NEAP_OK;
}

neap_status rewrite_accumulate(const struct neap_graph *graph, struct neap_graph **out) {
  struct accumulation a = {0};
  struct region region = {0};
  TRY(copy_begin(&a.copy, graph, NULL));
  const neap_status status = accumulate_all(&a, &region);
  region_free(&region);
  return copy_end(&a.copy, status, out);
}
