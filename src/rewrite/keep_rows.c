/* Residual branches whose backward pass takes gradients at some positions alone: stochastic backpropagation
 * (Cheng et al. 2022; Fang et al. 2022). */
#include <string.h>

#include "op/attention.h"
#include "op/kept_rows.h"
#include "rewrite/copy.h"

/* ---- Branches ---- */

/* The value that a residual sum adds to its shortcut, and the rows of each sequence that it has. */
struct branch {
  int32_t value, rows; /* value: in the old graph; rows: in the new one */
  int64_t length;
};

struct branches {
  const struct neap_graph *graph;
  bool *reached; /* by tensor: it follows from a shortcut */
  bool *sum;     /* by node: it is a residual sum */
  VECTOR(struct branch) list;
};

static bool has_attention(const struct neap_graph *graph, int64_t length) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op == OP_ATTENTION && node_input(graph, node, 0)->dims[1] == length) return true;
  }
  return false;
}

/* Returns true if `value` follows from `shortcut` without another residual sum between them. `end`: the node
 * that adds the two. */
static bool follows(const struct branches *b, int32_t shortcut, int32_t value, size_t end) {
  const struct neap_graph *graph = b->graph;
  const int32_t first = graph->tensors.data[shortcut].producer;
  memset(b->reached, 0, graph->tensors.count * sizeof *b->reached);
  b->reached[shortcut] = true;
  for (size_t v = (size_t)(first + 1); v < end; v++) {
    const struct node *node = &graph->nodes.data[v];
    bool any = false;
    for (int32_t i = 0; i < node->input_count; i++)
      any = any || (node->inputs[i] != NO_TENSOR && b->reached[graph_storage(graph, node->inputs[i])]);
    for (int32_t o = 0; any && !b->sum[v] && o < node->output_count; o++) b->reached[node->outputs[o]] = true;
  }
  return b->reached[value];
}

/* Returns the value before what is done element by element: to keep rows there is the same. */
static int32_t before_dropout(const struct neap_graph *graph, int32_t value) {
  for (;;) {
    const int32_t producer = graph->tensors.data[value].producer;
    if (producer < 0) return value;
    const struct node *node = &graph->nodes.data[producer];
    if (node->op != OP_DROPOUT && node->op != OP_CAST) return value;
    value = graph_storage(graph, node->inputs[0]);
  }
}

/* Appends the branch of a sum, if it is a residual one. */
static neap_status add_branch(struct branches *b, size_t v) {
  const struct neap_graph *graph = b->graph;
  const struct node *node = &graph->nodes.data[v];
  if (node->op != OP_ADD) return NEAP_OK;
  const struct tensor *x = node_input(graph, node, 0), *y = node_input(graph, node, 1);
  if (!same_shape(x, y) || x->rank != 3 || x->dims[1] < 2 || !has_attention(graph, x->dims[1]))
    return NEAP_OK;
  for (int i = 0; i < 2; i++) {
    const int32_t shortcut = graph_storage(graph, node->inputs[i]),
                  value = graph_storage(graph, node->inputs[1 - i]);
    if (shortcut == value || !follows(b, shortcut, value, v)) continue;
    b->sum[v] = true;
    return vector_push(&b->list, ((struct branch){before_dropout(graph, value), NO_TENSOR, x->dims[1]}));
  }
  return NEAP_OK;
}

static neap_status find_branches(struct branches *b, struct region *region) {
  b->reached = region_alloc(region, b->graph->tensors.count, sizeof *b->reached);
  b->sum = region_alloc(region, b->graph->nodes.count, sizeof *b->sum);
  RETURN_IF(b->reached == NULL || b->sum == NULL, NEAP_OUT_OF_MEMORY, "backprop-share: out of memory");
  for (size_t v = 0; v < b->graph->nodes.count; v++) TRY(add_branch(b, v));
  RETURN_IF(
      b->list.count == 0, NEAP_UNSUPPORTED,
      "backprop-share: '%s' must have residual branches over positions, with attention (got none, as in a "
      "convolutional or recurrent net); leave it out",
      b->graph->name);
  return NEAP_OK;
}

/* ---- Which rows ---- */

/* Returns 1 if the first row of sequences of this length is taken out: the class token; else 0. */
static int64_t class_tokens(const struct neap_graph *graph, int64_t length) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const struct part_attributes *a = &node->attributes.part;
    if (node->op == OP_SLICE && a->axis == 1 && a->first == 0 && a->count == 1 &&
        node_input(graph, node, 0)->rank == 3 && node_input(graph, node, 0)->dims[1] == length)
      return 1;
  }
  return 0;
}

/* Returns the columns of the grid that `places` rows are made of: those of the result of a convolution of an
 * image; 1: they are no grid. */
static int64_t columns_of(const struct neap_graph *graph, int64_t places) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const struct tensor *y = node->output_count > 0 ? &graph->tensors.data[node->outputs[0]] : NULL;
    if (node->op == OP_CONV && y->dims[2] * y->dims[3] == places) return y->dims[3];
  }
  return 1;
}

static struct kept_rows_attributes rows_of_branch(const struct neap_graph *graph, int64_t length,
                                                  float share) {
  const int64_t first = class_tokens(graph, length);
  return (struct kept_rows_attributes){length, first, columns_of(graph, length - first), share};
}

static neap_status add_rows(struct copy *copy, struct branch *branch, float share) {
  const char *name = copy->from->tensors.data[branch->value].name;
  const union attributes a = {.kept_rows = rows_of_branch(copy->from, branch->length, share)};
  return graph_apply(copy->to, OP_KEPT_ROWS, name, &a, NULL, 0, &branch->rows);
}

static neap_status mark_branches(struct copy *copy, struct branches *b, float share) {
  for (size_t i = 0; i < b->list.count; i++) TRY(add_rows(copy, &b->list.data[i], share));
  for (size_t v = 0; v < copy->from->nodes.count; v++) TRY(copy_node(copy, copy->from->nodes.data[v]));
  for (size_t i = 0; i < b->list.count; i++)
    copy->to->tensors.data[copy->map[b->list.data[i].value]].kept_rows = 1 + b->list.data[i].rows;
  return NEAP_OK;
}

neap_status rewrite_mark_branches(const struct neap_graph *graph, float share, struct neap_graph **out) {
  struct region region = {0};
  struct branches b = {.graph = graph};
  struct copy copy;
  neap_status status = find_branches(&b, &region);
  if (status == NEAP_OK) status = copy_begin(&copy, graph, NULL);
  if (status == NEAP_OK) status = copy_end(&copy, mark_branches(&copy, &b, share), out);
  vector_free(&b.list);
  region_free(&region);
  return status;
}

/* ---- Forms of values ---- */

/* Rows of the sequences of a value. */
struct rows {
  int32_t list; /* their numbers, in the new graph; NO_TENSOR: all rows */
  int64_t sequences, length, kept;
};

/* A value with some of its rows. */
struct form {
  struct rows rows;
  int32_t id;    /* in the new graph */
  bool gradient; /* it is 0 in other rows, and the whole of it may not be made yet */
};

struct keeping {
  struct copy copy;
  struct form *forms;    /* by storage in the old graph */
  VECTOR(int32_t) early; /* nodes of the new graph that may move to the forward pass */
};

/* Gives the shape of a tensor with some of its rows; false: it has no such rows. */
static bool shorten(const struct rows *r, const struct tensor *t, int64_t dims[NEAP_MAX_RANK]) {
  memcpy(dims, t->dims, sizeof t->dims);
  if (t->rank >= 2 && dims[0] == r->sequences && dims[1] == r->length) {
    dims[1] = r->kept;
    return true;
  }
  if (t->rank < 1 || dims[0] % (r->sequences * r->length) != 0) return false;
  dims[0] = dims[0] / r->length * r->kept;
  return true;
}

static neap_status view_as_sequences(struct neap_graph *graph, const struct rows *r, int64_t length,
                                     int32_t id, int32_t *view) {
  const int64_t elements = graph->tensors.data[id].elements,
                dims[] = {r->sequences, length, elements / (r->sequences * length)};
  return graph_add_view(graph, id, 3, dims, view);
}

/* Appends the sum of rows in their places and an addend; NO_TENSOR: 0. */
static neap_status scatter(struct keeping *k, const struct form *form, int32_t addend, const char *name,
                           int32_t *id) {
  struct gradient g = {.graph = k->copy.to};
  const struct rows *r = &form->rows;
  const union attributes a = {.kept_rows = {.length = r->length}};
  int32_t inputs[] = {NO_TENSOR, r->list, NO_TENSOR};
  TRY(view_as_sequences(g.graph, r, r->kept, form->id, &inputs[ROWS_X]));
  if (addend != NO_TENSOR) TRY(view_as_sequences(g.graph, r, r->length, addend, &inputs[ROWS_ADDEND]));
  return gradient_apply(&g, OP_SCATTER_ROWS, name, a, inputs, ROWS_INPUTS, id);
}

/* Sees to it that the whole of a value has been made. */
static neap_status make_whole(struct keeping *k, int32_t old) {
  if (old == NO_TENSOR) return NEAP_OK;
  const int32_t s = graph_storage(k->copy.from, old);
  const struct tensor *t = &k->copy.from->tensors.data[s];
  int32_t id;
  if (k->copy.map[s] >= 0 || !k->forms[s].gradient) return NEAP_OK;
  TRY(scatter(k, &k->forms[s], NO_TENSOR, t->name, &id));
  return graph_add_view(k->copy.to, id, t->rank, t->dims, &k->copy.map[s]);
}

/* Slots by bits: inputs and outputs of which a node takes and gives some rows alone, one by one. */
struct by_row {
  uint32_t inputs, outputs;
};

/* Returns how a node of the forward pass works on rows, each alone: cheap ones, which are done again with
 * rows that have been gathered. No rows: its result is gathered. */
static struct by_row made_by_row(const struct neap_graph *graph, const struct node *node) {
  const struct by_row none = {0, 0};
  switch ((enum op)node->op) {
#define UNARY(NAME, ...) case OP_##NAME:
#define BINARY(NAME, ...)
#include "op/elementwise_list.h"
#define GATED(NAME, ...) case OP_##NAME:
#include "op/gated_list.h"
  case OP_CAST:
    return (struct by_row){1, 1};
  case OP_MULTIPLY:
    return same_shape(node_input(graph, node, 0), node_input(graph, node, 1)) ? (struct by_row){3, 1} : none;
  case OP_ROW_NORM:
    return (struct by_row){1, 7};
  default:
    return none;
  }
}

static bool can_shorten(const struct neap_graph *graph, const struct node *node, const struct by_row *by,
                        const struct rows *r) {
  int64_t dims[NEAP_MAX_RANK];
  bool can = by->inputs != 0;
  for (int32_t i = 0; i < node->input_count && can; i++)
    if (by->inputs >> i & 1 && node->inputs[i] != NO_TENSOR)
      can = shorten(r, node_input(graph, node, i), dims);
  for (int32_t o = 0; o < node->output_count && can; o++)
    if (by->outputs >> o & 1) can = shorten(r, &graph->tensors.data[node->outputs[o]], dims);
  return can;
}

static neap_status copy_some(struct keeping *k, struct node node, const struct by_row *by,
                             const struct rows *r);

/* Notes that the last node depends on the forward pass alone. */
static neap_status note_early(struct keeping *k) {
  return vector_push(&k->early, (int32_t)k->copy.to->nodes.count - 1);
}

/* Gathers rows of a value that is whole. */
static neap_status gather_whole(struct keeping *k, const struct rows *r, int32_t storage) {
  const struct tensor *t = &k->copy.from->tensors.data[storage];
  struct gradient g = {.graph = k->copy.to};
  struct form form = {.rows = *r, .gradient = k->forms[storage].gradient};
  int32_t inputs[] = {NO_TENSOR, r->list};
  TRY(make_whole(k, storage));
  TRY(copy_tensor(&k->copy, storage, &inputs[ROWS_X]));
  TRY(view_as_sequences(g.graph, r, r->length, inputs[ROWS_X], &inputs[ROWS_X]));
  TRY(gradient_apply(&g, OP_GATHER_ROWS, t->name, (union attributes){0}, inputs, 2, &form.id));
  k->forms[storage] = form;
  return form.gradient ? NEAP_OK : note_early(k);
}

/* Makes rows of a value: again from gathered ones, or by gathering. */
static neap_status gather(struct keeping *k, const struct rows *r, int32_t storage) {
  const int32_t producer = k->copy.from->tensors.data[storage].producer;
  if (producer < 0 || k->forms[storage].gradient) return gather_whole(k, r, storage);
  const struct node *node = &k->copy.from->nodes.data[producer];
  const struct by_row by = made_by_row(k->copy.from, node);
  if (node->pass != NEAP_PASS_FORWARD || !can_shorten(k->copy.from, node, &by, r))
    return gather_whole(k, r, storage);
  TRY(copy_some(k, *node, &by, r));
  return note_early(k);
}

/* Gives some rows of a value, in its shape. */
static neap_status take_rows(struct keeping *k, const struct rows *r, int32_t old, int32_t *id) {
  const int32_t s = graph_storage(k->copy.from, old);
  const struct tensor *t = &k->copy.from->tensors.data[old];
  int64_t dims[NEAP_MAX_RANK];
  if (k->forms[s].rows.list != r->list) TRY(gather(k, r, s));
  RETURN_IF(!shorten(r, t, dims), NEAP_INTERNAL, "backprop-share: '%s' has no rows", t->name);
  return graph_add_view(k->copy.to, k->forms[s].id, t->rank, dims, id);
}

static neap_status make_form(struct keeping *k, const struct rows *r, int32_t old, int32_t *id) {
  struct tensor t = k->copy.from->tensors.data[old];
  RETURN_IF(!shorten(r, &t, t.dims), NEAP_INTERNAL, "backprop-share: '%s' has no rows", t.name);
  TRY(graph_add_tensor(k->copy.to, t, id));
  k->forms[old] = (struct form){*r, *id, k->copy.map[old] < 0};
  return NEAP_OK;
}

/* ---- Nodes of the backward pass ---- */

/* Returns how a node works on rows, whose other operands are whole. No rows: it needs whole tensors. */
static struct by_row by_row(const struct neap_graph *graph, const struct node *node) {
  switch ((enum op)node->op) {
#define UNARY(NAME, ...) case OP_##NAME##_BACKWARD:
#define BINARY(NAME, ...)
#include "op/elementwise_list.h"
#define GATED(NAME, ...) case OP_##NAME##_BACKWARD:
#include "op/gated_list.h"
  case OP_CAST:
    return (struct by_row){(1u << node->input_count) - 1, 1};
  case OP_SCALE: /* 0 stays 0 */
    return node->attributes.scalar.b == 0 ? (struct by_row){1, 1} : (struct by_row){0, 0};
  case OP_MULTIPLY:
    return same_shape(node_input(graph, node, 0), node_input(graph, node, 1)) ? (struct by_row){3, 1}
                                                                              : (struct by_row){0, 0};
  case OP_LINEAR_BACKWARD_DATA:
    return (struct by_row){2, 1};
  case OP_LINEAR_BACKWARD_WEIGHTS:
    return (struct by_row){3, 0};
  case OP_BIAS_BACKWARD:
    return (struct by_row){1, 0};
  case OP_ROW_NORM_BACKWARD:
    return (struct by_row){15, 1};
  default:
    return (struct by_row){0, 0};
  }
}

/* Returns true if the result of a node is 0 where its gradient is, though it depends on the place. */
static bool keeps_zeros(enum op op) { return op == OP_DROPOUT || op == OP_ROTARY || op == OP_SEQUENCE_MASK; }

static neap_status copy_whole(struct keeping *k, const struct node *node) {
  for (int32_t i = 0; i < node->input_count; i++) TRY(make_whole(k, node->inputs[i]));
  return copy_node(&k->copy, *node);
}

static neap_status copy_some(struct keeping *k, struct node node, const struct by_row *by,
                             const struct rows *r) {
  int32_t inputs[2 * MAX_SLOTS], outputs[NODE_MAX_OUTPUTS];
  RETURN_IF(node.input_count > MAX_SLOTS, NEAP_INTERNAL, "backprop-share: '%s' has too many inputs",
            node.name);
  for (int32_t i = 0; i < node.input_count; i++) {
    if (by->inputs >> i & 1 && node.inputs[i] != NO_TENSOR) {
      TRY(take_rows(k, r, node.inputs[i], &inputs[i]));
    } else {
      TRY(make_whole(k, node.inputs[i]));
      TRY(copy_tensor(&k->copy, node.inputs[i], &inputs[i]));
    }
  }
  for (int32_t o = 0; o < node.output_count; o++) {
    if (by->outputs >> o & 1)
      TRY(make_form(k, r, node.outputs[o], &outputs[o]));
    else
      TRY(copy_value(&k->copy, node.outputs[o]));
    if (!(by->outputs >> o & 1)) outputs[o] = k->copy.map[node.outputs[o]];
  }
  if (node.op == OP_ATTENTION_BACKWARD) inputs[node.input_count++] = r->list;
  node.inputs = inputs;
  node.outputs = outputs;
  return graph_add_node(k->copy.to, node);
}

/* Copies attention of which some queries have gradients: keys and values are whole, and so are their
 * gradients. Rows of several sequences, and queries that are steps apart, are not taken. */
static neap_status copy_attention(struct keeping *k, struct node node, const struct rows *r) {
  enum { QUERIES, KEYS, RESULT = 4, RESULT_GRADIENT = 6 };
  struct attention_attributes *a = &node.attributes.attention;
  const bool packed = node.inputs[KEYS] == NO_TENSOR;
  const struct by_row by = {(packed ? 0 : 1u << QUERIES) | 1u << RESULT | 1u << RESULT_GRADIENT, !packed};
  bool taken = node.input_count == ATTENTION_BACK_ROWS && can_shorten(k->copy.from, &node, &by, r);
  for (int i = 0; i < ATTENTION_PATTERNS; i++)
    taken = taken && a->patterns.of[i].step <= 1 && a->patterns.of[i].block == 0;
  if (!taken) return copy_whole(k, &node);
  a->length = r->length;
  return copy_some(k, node, &by, r);
}

static struct form *form_of(const struct keeping *k, int32_t old) {
  return &k->forms[graph_storage(k->copy.from, old)];
}

/* Adds two gradients, of which one or both have some rows. */
static neap_status copy_sum(struct keeping *k, const struct node *node) {
  const int32_t *in = node->inputs, out = node->outputs[0];
  const struct tensor *t = &k->copy.from->tensors.data[out];
  const struct form *x = form_of(k, in[0]), *y = form_of(k, in[1]);
  int32_t whole, id;
  if (!same_shape(node_input(k->copy.from, node, 0), node_input(k->copy.from, node, 1)))
    return copy_whole(k, node);
  if (x->gradient && y->gradient && x->rows.list == y->rows.list) {
    const struct rows rows = x->rows;
    return copy_some(k, *node, &(struct by_row){3, 1}, &rows);
  }
  const int some = x->gradient ? 0 : 1;
  TRY(make_whole(k, in[1 - some]));
  TRY(copy_tensor(&k->copy, in[1 - some], &whole));
  TRY(scatter(k, form_of(k, in[some]), whole, node->name, &id));
  return graph_add_view(k->copy.to, id, t->rank, t->dims, &k->copy.map[out]);
}

/* Returns the rows of the first gradient among the inputs that has some alone; NULL: none has. */
static const struct rows *rows_read(const struct keeping *k, const struct node *node) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR && form_of(k, node->inputs[i])->gradient)
      return &form_of(k, node->inputs[i])->rows;
  return NULL;
}

static neap_status copy_gradient(struct keeping *k, const struct node *node, struct rows r) {
  const struct by_row by = by_row(k->copy.from, node);
  if (node->op == OP_ADD) return copy_sum(k, node);
  if (node->op == OP_ATTENTION_BACKWARD) return copy_attention(k, *node, &r);
  if (can_shorten(k->copy.from, node, &by, &r)) return copy_some(k, *node, &by, &r);
  TRY(copy_whole(k, node));
  if (!keeps_zeros((enum op)node->op)) return NEAP_OK;
  k->forms[node->outputs[0]].gradient = true;
  return gather(k, &r, node->outputs[0]);
}

/* Notes the rows that a gradient has instead of scattering them. */
static neap_status note_rows(struct keeping *k, const struct node *node) {
  const struct tensor *y = &k->copy.from->tensors.data[node->outputs[0]];
  struct form *form = &k->forms[node->outputs[0]];
  form->gradient = true;
  TRY(copy_tensor(&k->copy, node->inputs[ROWS_LIST], &form->rows.list));
  TRY(copy_tensor(&k->copy, node->inputs[ROWS_X], &form->id));
  form->rows.sequences = y->dims[0];
  form->rows.length = y->dims[1];
  form->rows.kept = k->copy.to->tensors.data[form->rows.list].dims[0];
  return NEAP_OK;
}

static neap_status copy_by_rows(struct keeping *k, const struct node *node) {
  if (node->op == OP_SCATTER_ROWS) return note_rows(k, node);
  const struct rows *r = node->pass == NEAP_PASS_BACKWARD ? rows_read(k, node) : NULL;
  return r != NULL && node->update_count == 0 ? copy_gradient(k, node, *r) : copy_whole(k, node);
}

/* ---- The order of nodes ---- */

/* The nodes in a new order. */
struct order {
  struct node *from;
  bool *done;  /* by node in the old order */
  bool *whole; /* by tensor: a gradient reads the whole of it */
  size_t count;
};

/* Leaves early nodes in the backward pass until they move, and finds what the others there read whole. */
static void find_whole(const struct keeping *k, const struct order *order) {
  const struct neap_graph *graph = k->copy.to;
  for (size_t e = 0; e < k->early.count; e++) order->from[k->early.data[e]].pass = NEAP_PASS_UPDATE;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &order->from[v];
    for (int32_t i = 0; node->pass == NEAP_PASS_BACKWARD && i < node->input_count; i++)
      if (node->inputs[i] != NO_TENSOR) order->whole[graph_storage(graph, node->inputs[i])] = true;
  }
  for (size_t e = 0; e < k->early.count; e++) order->from[k->early.data[e]].pass = NEAP_PASS_BACKWARD;
}

/* Returns the node that makes an input; -1: none does. */
static int32_t maker_of(const struct neap_graph *graph, const struct node *node, int32_t i) {
  return node->inputs[i] == NO_TENSOR ? -1
                                      : graph->tensors.data[graph_storage(graph, node->inputs[i])].producer;
}

/* Returns true if an early node could come now: what it reads has been made, but for numbers of rows. */
static bool is_ready(const struct neap_graph *graph, const struct node *node, const struct order *order) {
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t maker = maker_of(graph, node, i);
    if (maker >= 0 && !order->done[maker] && order->from[maker].op != OP_KEPT_ROWS) return false;
  }
  return node->op != OP_GATHER_ROWS || !order->whole[graph_storage(graph, node->inputs[ROWS_X])];
}

/* Puts a node; before the first one that reads them, the numbers of rows. */
static void put(struct neap_graph *graph, struct order *order, size_t v, neap_pass pass) {
  const struct node *node = &order->from[v];
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t maker = maker_of(graph, node, i);
    if (maker < 0 || order->done[maker] || order->from[maker].op != OP_KEPT_ROWS) continue;
    graph->nodes.data[order->count] = order->from[maker];
    graph->nodes.data[order->count++].pass = pass;
    order->done[maker] = true;
  }
  graph->nodes.data[order->count] = *node;
  graph->nodes.data[order->count++].pass = pass;
  order->done[v] = true;
}

/* Puts the nodes that take rows of what the forward pass made right behind what they read. Where the value is
 * read whole, too, they stay where their rows are read. Numbers of rows come last of all, so that they belong
 * to the part of the graph that reads them. */
static void put_all(struct keeping *k, struct order *order) {
  struct neap_graph *graph = k->copy.to;
  const size_t count = graph->nodes.count;
  for (size_t v = 0; v < count; v++) {
    const struct node *node = &order->from[v];
    if (!order->done[v] && node->op != OP_KEPT_ROWS) put(graph, order, v, node->pass);
    for (size_t e = 0; node->pass == NEAP_PASS_FORWARD && e < k->early.count; e++) {
      const size_t other = (size_t)k->early.data[e];
      if (!order->done[other] && is_ready(graph, &order->from[other], order))
        put(graph, order, other, NEAP_PASS_FORWARD);
    }
  }
}

static neap_status put_early(struct keeping *k, struct region *region) {
  struct neap_graph *graph = k->copy.to;
  const size_t count = graph->nodes.count;
  struct order order = {.from = region_copy(region, graph->nodes.data, count, sizeof *order.from),
                        .done = region_alloc(region, count, sizeof *order.done),
                        .whole = region_alloc(region, graph->tensors.count, sizeof *order.whole)};
  RETURN_IF(order.from == NULL || order.done == NULL || order.whole == NULL, NEAP_OUT_OF_MEMORY,
            "backprop-share: out of memory");
  find_whole(k, &order);
  put_all(k, &order);
  for (size_t v = 0; v < count; v++)
    for (int32_t o = 0; o < graph->nodes.data[v].output_count; o++)
      graph->tensors.data[graph->nodes.data[v].outputs[o]].producer = (int32_t)v;
  return NEAP_OK;
}

/* ---- The whole graph ---- */

/* Marks tensors that some node reads. */
static void find_read(const struct neap_graph *graph, bool *read) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    for (int32_t i = 0; i < node->input_count; i++)
      if (node->inputs[i] != NO_TENSOR) read[graph_storage(graph, node->inputs[i])] = true;
  }
}

static neap_status keep_all_rows(struct keeping *k, struct region *region) {
  const struct neap_graph *from = k->copy.from;
  bool *read = region_alloc(region, from->tensors.count, sizeof *read);
  k->forms = region_alloc(region, from->tensors.count, sizeof *k->forms);
  RETURN_IF(read == NULL || k->forms == NULL, NEAP_OUT_OF_MEMORY, "backprop-share: out of memory");
  for (size_t t = 0; t < from->tensors.count; t++) k->forms[t].rows.list = NO_TENSOR;
  find_read(from, read);
  for (size_t v = 0; v < from->nodes.count; v++) {
    const struct node *node = &from->nodes.data[v];
    if (node->op == OP_KEPT_ROWS && !read[node->outputs[0]]) continue;
    TRY(copy_by_rows(k, node));
  }
  for (size_t t = 0; t < k->copy.to->tensors.count; t++) k->copy.to->tensors.data[t].kept_rows = 0;
  return put_early(k, region);
}

neap_status rewrite_keep_rows(const struct neap_graph *graph, struct neap_graph **out) {
  struct keeping k = {0};
  struct region region = {0};
  TRY(copy_begin(&k.copy, graph, NULL));
  const neap_status status = keep_all_rows(&k, &region);
  region_free(&region);
  vector_free(&k.early);
  return copy_end(&k.copy, status, out);
}
