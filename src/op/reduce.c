/* Operators along axes: sums, means, softmax. */
#include "op/builder.h"

/* ---- Sums ---- */

static const struct attribute_row axes_attributes[] = {ATTRIBUTE(axes.axes, INTEGER),
                                                       ATTRIBUTE(axes.scale, REAL)};

/* Axes that are summed over get size 1. */
static neap_status infer_sum(const struct neap_graph *graph, const struct node *node,
                             struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  const int64_t axes = node->attributes.axes.axes;
  TRY(need_real(graph, node, -1, "a tensor"));
  RETURN_IF(axes <= 0 || axes >= (int64_t)1 << x->rank, NEAP_INVALID_ARGUMENT,
            "%s '%s': name one or more of the %d axes of '%s' %s", node_row(node)->name, node->name, x->rank,
            x->name, shape_text(x).text);
  outputs[0] = value_like(x);
  for (int32_t i = 0; i < x->rank; i++)
    if (axes >> i & 1) outputs[0].dims[i] = 1;
  return NEAP_OK;
}

static neap_status gradient_sum(struct gradient *g, const struct node *n) {
  const struct tensor *x = &g->graph->tensors.data[n->inputs[0]];
  struct node back = *n;
  back.attributes = (union attributes){.expand = {.scale = n->attributes.axes.scale}};
  for (int32_t i = 0; i < x->rank; i++) back.attributes.expand.dims[i] = x->dims[i];
  return GRADIENT_EMIT(g, OP_EXPAND, &back, n->inputs[0], g->of[n->outputs[0]]);
}

/* If rows are summed over, the parts' results are added. */
static void split_sum(const struct neap_graph *graph, const struct node *node, struct row_split *split) {
  (void)graph;
  if (node->attributes.axes.axes & 1) *split = (struct row_split){1, 0, 1};
}

const struct op_row op_row_sum = {"Sum",
                                  "sum over axes, times a number",
                                  "sum",
                                  1,
                                  infer_sum,
                                  gradient_sum,
                                  ROW_ATTRIBUTES(axes_attributes),
                                  .split = {1, 1, 0},
                                  .split_of = split_sum};

static neap_tensor sum_or_mean(neap_builder *b, neap_tensor x, const int *axes, int count, bool keep,
                               bool mean) {
  if (!builder_usable(b, x)) return FAILED;
  const struct tensor t = *builder_tensor(b, x);
  union attributes a = {.axes = {.scale = 1}};
  char name[2 * NAME_LIMIT];
  builder_peek(b, OP_SUM, name);
  const struct node node = {.name = name, .op = OP_SUM};
  for (int32_t i = 0; axes == NULL && i < t.rank; i++) a.axes.axes |= 1 << i;
  for (int i = 0; axes != NULL && i < count; i++) {
    const int64_t axis = builder_axis(b, x, axes[i]);
    const neap_status status = need_axis(&node, &t, axis);
    if (status != NEAP_OK) return builder_fail(b, status);
    if (a.axes.axes >> axis & 1)
      return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT, "Sum '%s': axis %d of '%s' %s is named twice",
                                       name, axes[i], t.name, shape_text(&t).text));
    a.axes.axes |= 1 << axis;
  }
  double elements = 1;
  int64_t dims[NEAP_MAX_RANK];
  int rank = 0;
  for (int32_t i = 0; i < t.rank; i++) {
    if (a.axes.axes >> i & 1)
      elements *= (double)t.dims[i];
    else
      dims[rank++] = t.dims[i];
  }
  if (mean) a.axes.scale = (float)(1 / elements);
  const neap_tensor y = builder_next(b, OP_SUM, a, &x, 1);
  if (y < 0 || keep) return y;
  if (rank == 0) dims[rank++] = 1; /* a scalar is [1] */
  return builder_view(b, y, rank, dims);
}

neap_tensor neap_sum(neap_builder *b, neap_tensor x, const int *axes, int count, bool keep) {
  return sum_or_mean(b, x, axes, count, keep, false);
}

neap_tensor neap_mean(neap_builder *b, neap_tensor x, const int *axes, int count, bool keep) {
  return sum_or_mean(b, x, axes, count, keep, true);
}

/* ---- The way back: axes made longer ---- */

static const struct attribute_row expand_attributes[] = {ATTRIBUTE(expand.scale, REAL)};

static neap_status infer_expand(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  TRY(need_real(graph, node, -1, "a tensor"));
  outputs[0] = value_like(x);
  for (int32_t i = 0; i < x->rank; i++) {
    const int64_t wanted = node->attributes.expand.dims[i];
    RETURN_IF(x->dims[i] != wanted && x->dims[i] != 1, NEAP_INVALID_ARGUMENT,
              "Expand '%s': '%s' %s cannot be made %s; dimension %d is %lld, and only 1 can be made longer",
              node->name, x->name, shape_text(x).text, dims_text(x->rank, node->attributes.expand.dims).text,
              i, (long long)x->dims[i]);
    outputs[0].dims[i] = wanted;
  }
  return NEAP_OK;
}

static neap_status gradient_expand(struct gradient *g, const struct node *n) {
  const int32_t x = n->inputs[0];
  union attributes a = {.axes = {.scale = n->attributes.expand.scale}};
  const struct tensor from = g->graph->tensors.data[x], to = g->graph->tensors.data[n->outputs[0]];
  for (int32_t i = 0; i < from.rank; i++)
    if (from.dims[i] != to.dims[i]) a.axes.axes |= 1 << i;
  if (!gradient_wanted(g, x)) return NEAP_OK;
  int32_t share = g->of[n->outputs[0]];
  if (a.axes.axes == 0)
    TRY(gradient_apply(g, OP_SCALE, n->name, (union attributes){.scalar = {a.axes.scale, 0}}, &share, 1,
                       &share));
  else
    TRY(gradient_apply(g, OP_SUM, n->name, a, &share, 1, &share));
  return gradient_add(g, x, share);
}

const struct op_row op_row_expand = {"Expand",
                                     "axes of 1 made longer, times a number",
                                     "expand",
                                     1,
                                     infer_expand,
                                     gradient_expand,
                                     ROW_ATTRIBUTES(expand_attributes),
                                     .split = {1, 1, 0},
                                     .split_of = split_broadcast};

neap_tensor neap_expand(neap_builder *b, neap_tensor x, int rank, const int64_t *dims) {
  if (!builder_usable(b, x)) return FAILED;
  const struct tensor t = *builder_tensor(b, x);
  if (dims == NULL || rank < t.rank || rank > NEAP_MAX_RANK)
    return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                                     "expand of '%s' %s to %d dimensions: the number must be %d to %d",
                                     t.name, shape_text(&t).text, rank, t.rank, NEAP_MAX_RANK));
  int64_t shape[NEAP_MAX_RANK];
  union attributes a = {.expand = {.scale = 1}};
  for (int i = 0; i < rank; i++) {
    shape[i] = i < rank - t.rank ? 1 : t.dims[i - (rank - t.rank)];
    a.expand.dims[i] = dims[i];
  }
  if (rank != t.rank) x = builder_view(b, x, rank, shape);
  return builder_next(b, OP_EXPAND, a, &x, 1);
}

/* ---- Softmax ---- */

static const struct attribute_row softmax_attributes[] = {ATTRIBUTE(part.axis, INTEGER)};

static neap_status infer_softmax(const struct neap_graph *graph, const struct node *node,
                                 struct tensor *outputs) {
  const int64_t axis = node->attributes.part.axis;
  const struct tensor *x = node_input(graph, node, 0);
  TRY(need_axis(node, x, axis));
  return infer_same(graph, node, outputs);
}

static neap_status gradient_softmax(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_SOFTMAX_BACKWARD, n, n->inputs[0], n->outputs[0], g->of[n->outputs[0]]);
}

const struct op_row op_row_softmax = {"Softmax",
                                      "e^x over its sum along an axis",
                                      "softmax",
                                      1,
                                      infer_softmax,
                                      gradient_softmax,
                                      ROW_INPLACE(inplace_first),
                                      ROW_ATTRIBUTES(softmax_attributes),
                                      .split = {1, 1, 0},
                                      .split_of = split_along_axis};
const struct op_row op_row_softmax_backward = {
    "SoftmaxBackward",           "gradient of softmax from its output", .output_count = 1,
    ROW_INPLACE(inplace_later),  ROW_ATTRIBUTES(softmax_attributes),    .split = {3, 1, 0},
    .split_of = split_along_axis};

neap_tensor neap_softmax(neap_builder *b, neap_tensor x, int axis) {
  const union attributes a = {.part = {.axis = builder_axis(b, x, axis)}};
  return builder_next(b, OP_SOFTMAX, a, &x, 1);
}
