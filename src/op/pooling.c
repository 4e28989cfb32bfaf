/* Pooling over windows, over regions and over all pixels. */
#include "op/builder.h"
#include "op/window.h"

static const struct attribute_row attributes[] = {
    ATTRIBUTE(pool.size, INTEGER), ATTRIBUTE(pool.stride, INTEGER),     ATTRIBUTE(pool.padding, INTEGER),
    ATTRIBUTE(pool.ceil, FLAG),    ATTRIBUTE(pool.count_padding, FLAG), ATTRIBUTE(pool.relu, FLAG),
};

/* ---- Windows ---- */

static neap_status infer_pool(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  TRY(need_real(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = node_input(graph, node, 0);
  const struct pool_attributes *a = &node->attributes.pool;
  RETURN_IF(a->size > 15 || a->padding >= a->size, NEAP_INVALID_ARGUMENT,
            "%s '%s' of '%s' %s: the window is %lld pixels wide and its padding %lld; it must be at most 15 "
            "wide and wider than its padding",
            node_row(node)->name, node->name, x->name, shape_text(x).text, (long long)a->size,
            (long long)a->padding);
  outputs[0] = value_like(x);
  for (int i = 2; i < 4; i++) {
    const struct window_axis axis = {x->dims[i], a->size, a->stride, a->padding, 1, a->ceil};
    TRY(window_count(node, x, axis, &outputs[0].dims[i]));
  }
  if (node->op == OP_MAX_POOL) {
    outputs[1] = outputs[0];
    outputs[1].dtype = NEAP_U8;
  }
  return NEAP_OK;
}

static neap_status gradient_max_pool(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_MAX_POOL_BACKWARD, n, n->inputs[0], n->outputs[1], g->of[n->outputs[0]]);
}

static neap_status gradient_average_pool(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_AVERAGE_POOL_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]]);
}

const struct op_row op_row_max_pool = {"MaxPool",
                                       "maximum over windows, with or without ReLU; keeps a byte an element",
                                       "max_pool",
                                       2,
                                       infer_pool,
                                       gradient_max_pool,
                                       ROW_ATTRIBUTES(attributes),
                                       .split = {1, 3, 0}};
const struct op_row op_row_max_pool_backward = {"MaxPoolBackward",  "gradient of a max pool from its indices",
                                                .output_count = 1,  ROW_ATTRIBUTES(attributes),
                                                .takes = {TYPE_U8}, .split = {3, 1, 0}};
const struct op_row op_row_average_pool = {"AveragePool",
                                           "mean over windows, with or without padding",
                                           "average_pool",
                                           1,
                                           infer_pool,
                                           gradient_average_pool,
                                           ROW_ATTRIBUTES(attributes),
                                           .split = {1, 1, 0}};
const struct op_row op_row_average_pool_backward = {"AveragePoolBackward", "gradient of an average pool",
                                                    .output_count = 1, ROW_ATTRIBUTES(attributes),
                                                    .split = {1, 1, 0}};

static union attributes pool_attributes(neap_pool_options o) {
  return (union attributes){.pool = {.size = o.size,
                                     .stride = o.stride ? o.stride : o.size,
                                     .padding = o.padding,
                                     .ceil = o.ceil,
                                     .count_padding = o.count_padding}};
}

neap_tensor neap_max_pool(neap_builder *b, neap_tensor x, neap_pool_options options) {
  return builder_next(b, OP_MAX_POOL, pool_attributes(options), &x, 1);
}

neap_tensor neap_average_pool(neap_builder *b, neap_tensor x, neap_pool_options options) {
  return builder_next(b, OP_AVERAGE_POOL, pool_attributes(options), &x, 1);
}

/* ---- All pixels ---- */

static neap_status infer_global(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  TRY(need_real(graph, node, -3, "[N, C, pixels...]"));
  outputs[0] = value_of(x->dtype, 2, x->dims[0], x->dims[1]);
  return NEAP_OK;
}

static neap_status gradient_global(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_GLOBAL_AVERAGE_POOL_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]]);
}

const struct op_row op_row_global_average_pool = {
    "GlobalAveragePool", "mean over all pixels",      "global_average_pool", 1,
    infer_global,        .gradient = gradient_global, .split = {1, 1, 0}};
const struct op_row op_row_global_average_pool_backward = {
    "GlobalAveragePoolBackward", "gradient of a global average pool", .output_count = 1, .split = {1, 1, 0}};

neap_tensor neap_global_average_pool(neap_builder *b, neap_tensor x) {
  return builder_next(b, OP_GLOBAL_AVERAGE_POOL, (union attributes){0}, &x, 1);
}

/* ---- Regions ---- */

static const struct attribute_row adaptive_attributes[] = {ATTRIBUTE(size, INTEGER)};

static neap_status infer_adaptive(const struct neap_graph *graph, const struct node *node,
                                  struct tensor *outputs) {
  TRY(need_real(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = node_input(graph, node, 0);
  const int64_t size = node->attributes.size;
  RETURN_IF(size < 1 || size > INT32_MAX, NEAP_INVALID_ARGUMENT,
            "AdaptiveAveragePool '%s': '%s' %s cannot have %lld rows and columns; the size must be 1 to %d",
            node->name, x->name, shape_text(x).text, (long long)size, INT32_MAX);
  outputs[0] = value_like(x);
  outputs[0].dims[2] = outputs[0].dims[3] = size;
  return NEAP_OK;
}

static neap_status gradient_adaptive(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_ADAPTIVE_AVERAGE_POOL_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]]);
}

const struct op_row op_row_adaptive_average_pool = {
    "AdaptiveAveragePool", "mean over k x k regions of any image", "adaptive_average_pool", 1, infer_adaptive,
    gradient_adaptive,     ROW_ATTRIBUTES(adaptive_attributes),    .split = {1, 1, 0}};
const struct op_row op_row_adaptive_average_pool_backward = {
    "AdaptiveAveragePoolBackward", "gradient of an adaptive average pool", .output_count = 1,
    ROW_ATTRIBUTES(adaptive_attributes), .split = {1, 1, 0}};

neap_tensor neap_adaptive_average_pool(neap_builder *b, neap_tensor x, int64_t size) {
  return builder_next(b, OP_ADAPTIVE_AVERAGE_POOL, (union attributes){.size = size}, &x, 1);
}
