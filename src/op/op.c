/* The table of operators, and its helpers. */
#include "op/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct op_row *const op_rows[OP_COUNT] = {
#define OP(NAME, id) [OP_##NAME] = &op_row_##id,
#include "op/list.h"
#undef OP
};

const struct inplace_pair inplace_first[1] = {{0, 0}}, inplace_second[1] = {{0, 1}},
                          inplace_either[2] = {{0, 0}, {0, 1}}, inplace_later[2] = {{0, 1}, {0, 0}};

/* The types of real numbers that a graph can have (neap_cast). */
static const char *const any_real[] = {"f32", "bf16", "f16", NULL}, *const f32_alone[] = {"f32", NULL};

/* Returns true if the first operand is always f32. */
static bool takes_f32_alone(const struct op_row *row) { return row->takes[0] == TYPE_F32; }

bool neap_operator_at(int32_t index, neap_row *row) {
  if (row == NULL || index < 0 || index >= OP_COUNT) return false;
  const struct op_row *op = op_rows[index];
  *row = (neap_row){
      .name = op->name, .summary = op->summary, .types = takes_f32_alone(op) ? f32_alone : any_real};
  return true;
}

/* Splits "conv.padding[1]" into "padding" and element 1; without brackets the element is 0. */
static int split_name(const char *row, char *name, size_t size) {
  const char *dot = strrchr(row, '.'), *from = dot != NULL ? dot + 1 : row, *bracket = strchr(from, '[');
  snprintf(name, size, "%.*s", (int)(bracket != NULL ? (size_t)(bracket - from) : strlen(from)), from);
  return bracket != NULL ? atoi(bracket + 1) : 0;
}

bool neap_attribute_at(int32_t op, int32_t index, neap_attribute *attribute) {
  if (attribute == NULL || op < 0 || op >= OP_COUNT || index < 0) return false;
  static const char *const types[] = {[ATTRIBUTE_INTEGER] = "integer",
                                      [ATTRIBUTE_INT32] = "integer",
                                      [ATTRIBUTE_REAL] = "real",
                                      [ATTRIBUTE_FLAG] = "flag"};
  int32_t seen = -1;
  for (int32_t i = 0; i < op_rows[op]->attribute_count && seen <= index; i++) {
    const struct attribute_row *row = &op_rows[op]->attributes[i];
    neap_attribute next = {.type = types[row->type], .count = 1, .usual = row->usual};
    const int element = split_name(row->name, next.name, sizeof next.name);
    if (element == 0)
      seen++;
    else if (seen == index)
      attribute->count = element + 1;
    if (element == 0 && seen == index) *attribute = next;
  }
  return seen >= index;
}

static neap_status apply(struct neap_graph *graph, enum op op, neap_pass pass, const char *name,
                         const union attributes *attributes, const int32_t *inputs, int32_t input_count,
                         int32_t *outputs) {
  const struct op_row *row = op_rows[op];
  int32_t slots[MAX_SLOTS];
  if (input_count < row->slots) {
    for (int32_t i = 0; i < row->slots; i++) slots[i] = i < input_count ? inputs[i] : NO_TENSOR;
    inputs = slots;
    input_count = row->slots;
  }
  struct node node = {.name = name,
                      .op = op,
                      .pass = pass,
                      .attributes = *attributes,
                      .inputs = inputs,
                      .input_count = input_count,
                      .outputs = outputs,
                      .output_count = row->output_count};
  struct tensor shapes[NODE_MAX_OUTPUTS];
  TRY(row->infer(graph, &node, shapes));
  TRY(node_check_types(graph, &node));
  for (int32_t i = 0; i < row->output_count; i++) {
    char text[160];
    snprintf(text, sizeof text, i == 0 ? "%s" : "%s.%d", name, i);
    shapes[i].name = text;
    TRY(graph_add_tensor(graph, shapes[i], &outputs[i]));
  }
  return graph_add_node(graph, node);
}

neap_status graph_apply(struct neap_graph *graph, enum op op, const char *name,
                        const union attributes *attributes, const int32_t *inputs, int32_t input_count,
                        int32_t *outputs) {
  return apply(graph, op, NEAP_PASS_FORWARD, name, attributes, inputs, input_count, outputs);
}

/* ---- Types ---- */

uint32_t node_exact(const struct node *node) {
  const struct op_row *row = node_row(node);
  return row->exact_of != NULL ? row->exact_of(node) : row->exact;
}

type_set node_takes(const struct node *node, int32_t slot) {
  const type_set takes = node_row(node)->takes[slot < MAX_SLOTS ? slot : MAX_SLOTS - 2 + slot % 2];
  return takes != 0 ? takes : TYPES_FLOAT;
}

neap_status node_check_types(const struct neap_graph *graph, const struct node *node) {
  for (int32_t i = 0; i < node->input_count; i++) {
    const struct tensor *x = node_input(graph, node, i);
    const type_set takes = node_takes(node, i);
    if (x == NULL || type_set_has(takes, x->dtype) || (takes & TYPE_F32 && dtype_is_real(x->dtype))) continue;
    char names[160] = "";
    for (neap_dtype d = 0; (int32_t)d < dtype_count; d++) {
      const size_t used = strlen(names);
      if (type_set_has(takes, d))
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", dtype_rows[d].name);
    }
    return neap_fail(NEAP_INVALID_ARGUMENT, "%s '%s': input %d is '%s' %s of %s; it must be of %s",
                     node_row(node)->name, node->name, i + 1, x->name, shape_text(x).text,
                     dtype_rows[x->dtype].name, names);
  }
  return NEAP_OK;
}

/* ---- Shapes ---- */

bool same_shape(const struct tensor *a, const struct tensor *b) {
  bool equal = a->rank == b->rank && a->dtype == b->dtype;
  for (int32_t i = 0; equal && i < a->rank; i++) equal = a->dims[i] == b->dims[i];
  return equal;
}

const struct tensor *node_input(const struct neap_graph *graph, const struct node *node, int32_t i) {
  const int32_t id = i < node->input_count ? node->inputs[i] : NO_TENSOR;
  return id == NO_TENSOR ? NULL : &graph->tensors.data[id];
}

struct tensor value_like(const struct tensor *t) {
  struct tensor copy = *t;
  copy.role = NEAP_ROLE_VALUE;
  copy.view_of = -1;
  copy.on_disk = copy.perturbed = copy.spilled = false;
  copy.shares = 0;
  copy.file_bytes = 0;
  return copy;
}

struct tensor value_of(neap_dtype dtype, int32_t rank, int64_t d0, int64_t d1) {
  return (struct tensor){
      .dtype = dtype, .role = NEAP_ROLE_VALUE, .rank = rank, .dims = {d0, d1}, .view_of = -1};
}

neap_status need_real(const struct neap_graph *graph, const struct node *node, int32_t rank,
                      const char *shape) {
  const struct tensor *x = node_input(graph, node, 0);
  RETURN_IF((rank >= 0 ? x->rank != rank : x->rank < -rank) || !dtype_is_real(x->dtype),
            NEAP_INVALID_ARGUMENT, "%s '%s' takes %s of real numbers, but '%s' is %s of %s",
            node_row(node)->name, node->name, shape, x->name, shape_text(x).text, dtype_rows[x->dtype].name);
  return NEAP_OK;
}

neap_status need_same_type(const struct node *node, const struct tensor *x, const struct tensor *y) {
  RETURN_IF(x->dtype != y->dtype, NEAP_INVALID_ARGUMENT,
            "%s '%s': '%s' %s is of %s and '%s' %s of %s, but both must be of one type", node_row(node)->name,
            node->name, x->name, shape_text(x).text, dtype_rows[x->dtype].name, y->name, shape_text(y).text,
            dtype_rows[y->dtype].name);
  return NEAP_OK;
}

neap_status need_same_shape(const struct node *node, const struct tensor *x, const struct tensor *y) {
  TRY(need_same_type(node, x, y));
  RETURN_IF(!same_shape(x, y), NEAP_INVALID_ARGUMENT,
            "%s '%s': '%s' is %s and '%s' is %s, but both must be of one shape", node_row(node)->name,
            node->name, x->name, shape_text(x).text, y->name, shape_text(y).text);
  return NEAP_OK;
}

neap_status need_axis(const struct node *node, const struct tensor *x, int64_t axis) {
  RETURN_IF(axis < 0 || axis >= x->rank, NEAP_INVALID_ARGUMENT,
            "%s '%s': '%s' %s has no axis %lld; axes are %d to %d", node_row(node)->name, node->name, x->name,
            shape_text(x).text, (long long)axis, -x->rank, x->rank - 1);
  return NEAP_OK;
}

neap_status need_bias(const struct node *node, const struct tensor *bias, const struct tensor *x,
                      int64_t channels) {
  if (bias == NULL) return NEAP_OK;
  RETURN_IF(bias->rank != 1 || bias->dims[0] != channels, NEAP_INVALID_ARGUMENT,
            "%s '%s': the bias must be [%lld], but '%s' is %s", node_row(node)->name, node->name,
            (long long)channels, bias->name, shape_text(bias).text);
  return need_same_type(node, x, bias);
}

neap_status need_position(const struct node *node, const struct tensor *position) {
  RETURN_IF(position != NULL && (position->dtype != NEAP_I32 || position->elements != 1),
            NEAP_INVALID_ARGUMENT, "%s '%s': a position must be [1] of i32, but '%s' is %s of %s",
            node_row(node)->name, node->name, position->name, shape_text(position).text,
            dtype_rows[position->dtype].name);
  return NEAP_OK;
}

neap_status infer_broadcast(const struct node *node, const struct tensor *x, const struct tensor *y,
                            int32_t kept, struct tensor *output) {
  const struct tensor *longer = x->rank >= y->rank ? x : y, *other = longer == x ? y : x;
  TRY(need_same_type(node, x, y));
  *output = value_like(longer);
  for (int32_t i = 0; i < other->rank - kept; i++) {
    const int32_t at = longer->rank - other->rank + i;
    const int64_t a = longer->dims[at], b = other->dims[i];
    RETURN_IF(a != b && a != 1 && b != 1, NEAP_INVALID_ARGUMENT,
              "%s '%s': shapes %s of '%s' and %s of '%s' do not broadcast; dimension %d is %lld and %lld",
              node_row(node)->name, node->name, shape_text(x).text, x->name, shape_text(y).text, y->name, at,
              (long long)(longer == x ? a : b), (long long)(longer == x ? b : a));
    if (a == 1) output->dims[at] = b;
  }
  return NEAP_OK;
}

neap_status infer_same(const struct neap_graph *graph, const struct node *node, struct tensor *outputs) {
  TRY(need_real(graph, node, -1, "a tensor"));
  outputs[0] = value_like(node_input(graph, node, 0));
  return NEAP_OK;
}

/* ---- Parts ---- */

struct row_split node_split(const struct neap_graph *graph, const struct node *node) {
  struct row_split split = node_row(node)->split;
  if (node_row(node)->split_of != NULL) node_row(node)->split_of(graph, node, &split);
  return split;
}

void split_along_axis(const struct neap_graph *graph, const struct node *node, struct row_split *split) {
  (void)graph;
  if (node->attributes.part.axis == 0) *split = (struct row_split){0};
}

void split_broadcast(const struct neap_graph *graph, const struct node *node, struct row_split *split) {
  const struct tensor *y = &graph->tensors.data[node->outputs[0]];
  for (int32_t i = 0; i < node->input_count; i++) {
    const struct tensor *x = node_input(graph, node, i);
    if (x == NULL || x->rank < y->rank || x->dims[0] != y->dims[0]) split->inputs &= ~(1u << i);
  }
}

/* ---- Costs ---- */

double node_flops(const struct neap_graph *graph, const struct node *node) {
  const struct op_row *row = node_row(node);
  return row->flops != NULL ? row->flops(graph, node) : 0;
}

static double volume(const struct tensor *t) { return (double)dtype_bytes(t->dtype, (uint64_t)t->elements); }

double node_bytes(const struct neap_graph *graph, const struct node *node) {
  double bytes = 0;
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR) bytes += volume(&graph->tensors.data[node->inputs[i]]);
  for (int32_t i = 0; i < node->output_count; i++) bytes += volume(&graph->tensors.data[node->outputs[i]]);
  for (int32_t i = 0; i < node->update_count; i++) bytes += volume(&graph->tensors.data[node->updates[i]]);
  return bytes;
}

/* ---- Gradients ---- */

/* Views `share` in the shape of `base`. */
static neap_status reshape_share(struct neap_graph *graph, int32_t base, int32_t *share) {
  struct tensor view = graph->tensors.data[base];
  view.name = graph->tensors.data[*share].name;
  view.role = graph->tensors.data[*share].role;
  view.view_of = graph_storage(graph, *share);
  return graph_add_tensor(graph, view, share);
}

bool gradient_wanted(const struct gradient *gradient, int32_t target) {
  return target != NO_TENSOR && gradient->needed[graph_storage(gradient->graph, target)];
}

/* Adds a node that has the name and the attributes of `of`. */
static neap_status add_like(struct gradient *gradient, enum op op, const struct node *of, int32_t like,
                            const int32_t *inputs, int32_t input_count, int32_t *output) {
  TRY(graph_add_like(gradient->graph, like, of->name, output));
  return graph_add_node(gradient->graph, (struct node){.name = of->name,
                                                       .op = op,
                                                       .pass = NEAP_PASS_BACKWARD,
                                                       .attributes = of->attributes,
                                                       .inputs = inputs,
                                                       .input_count = input_count,
                                                       .outputs = output,
                                                       .output_count = 1,
                                                       .numbers = of->numbers,
                                                       .number_count = of->number_count});
}

neap_status gradient_node(struct gradient *gradient, enum op op, const char *name,
                          union attributes attributes, int32_t like, const int32_t *inputs,
                          int32_t input_count, int32_t *output) {
  const struct node of = {.name = name, .attributes = attributes};
  return add_like(gradient, op, &of, like, inputs, input_count, output);
}

neap_status gradient_add(struct gradient *gradient, int32_t target, int32_t share) {
  struct neap_graph *graph = gradient->graph;
  const int32_t base = graph_storage(graph, target);
  if (!gradient->needed[base]) return NEAP_OK;
  if (base != target) TRY(reshape_share(graph, base, &share));
  if (gradient->of[base] == NO_TENSOR) {
    gradient->of[base] = share;
    return NEAP_OK;
  }
  const int32_t inputs[] = {gradient->of[base], share};
  return gradient_node(gradient, OP_ADD, graph->tensors.data[base].name, (union attributes){0}, base, inputs,
                       2, &gradient->of[base]);
}

neap_status gradient_emit(struct gradient *gradient, enum op op, const struct node *forward, int32_t target,
                          const int32_t *inputs, int32_t input_count) {
  if (!gradient_wanted(gradient, target)) return NEAP_OK;
  int32_t output;
  TRY(add_like(gradient, op, forward, target, inputs, input_count, &output));
  return gradient_add(gradient, target, output);
}

int32_t gradient_take(struct gradient *gradient, int32_t target) {
  const int32_t base = graph_storage(gradient->graph, target);
  if (base != target || !gradient->needed[base]) return NO_TENSOR;
  const int32_t before = gradient->of[base];
  gradient->of[base] = NO_TENSOR;
  return before;
}

neap_status gradient_apply(struct gradient *gradient, enum op op, const char *name,
                           union attributes attributes, const int32_t *inputs, int32_t input_count,
                           int32_t *output) {
  int32_t outputs[NODE_MAX_OUTPUTS];
  TRY(apply(gradient->graph, op, NEAP_PASS_BACKWARD, name, &attributes, inputs, input_count, outputs));
  *output = outputs[0];
  return NEAP_OK;
}

neap_status gradient_add_reduced(struct gradient *gradient, const char *name, int32_t target, int32_t share) {
  struct neap_graph *graph = gradient->graph;
  if (!gradient_wanted(gradient, target)) return NEAP_OK;
  const struct tensor to = graph->tensors.data[target], from = graph->tensors.data[share];
  if (same_shape(&to, &from)) return gradient_add(gradient, target, share);
  union attributes a = {.axes = {.scale = 1}};
  const int32_t missing = from.rank - to.rank; /* axes that the target does not have */
  for (int32_t i = 0; i < from.rank; i++)
    if (from.dims[i] > 1 && (i < missing || to.dims[i - missing] == 1)) a.axes.axes |= 1 << i;
  if (a.axes.axes != 0) TRY(gradient_apply(gradient, OP_SUM, name, a, &share, 1, &share));
  TRY(graph_add_view(graph, share, to.rank, to.dims, &share));
  return gradient_add(gradient, target, share);
}
