/* Mixtures of experts (Shazeer et al. 2017): a router chooses experts for each row, and linear layers give
 * each row the weights of its expert. */
#include "op/builder.h"

/* ---- The router ---- */

static const struct attribute_row route_attributes[] = {ATTRIBUTE(route.count, INTEGER),
                                                        ATTRIBUTE(route.normalised, FLAG)};

static neap_status infer_route(const struct neap_graph *graph, const struct node *node,
                               struct tensor *outputs) {
  const struct route_attributes *a = &node->attributes.route;
  TRY(need_real(graph, node, 2, "scores [rows, experts]"));
  const struct tensor *x = node_input(graph, node, 0);
  RETURN_IF(a->count < 1 || a->count > x->dims[1], NEAP_INVALID_ARGUMENT,
            "Route '%s': cannot choose %lld of the %lld experts that '%s' %s has scores of", node->name,
            (long long)a->count, (long long)x->dims[1], x->name, shape_text(x).text);
  RETURN_IF(x->dims[0] > INT32_MAX / a->count, NEAP_TOO_LARGE,
            "Route '%s': %lld rows with %lld experts each are too many", node->name, (long long)x->dims[0],
            (long long)a->count);
  const int64_t all = x->dims[0] * a->count;
  outputs[0] = value_of(x->dtype, 2, x->dims[0], a->count);
  outputs[1] = value_of(NEAP_I32, 1, all, 0);
  outputs[2] = value_of(NEAP_I32, 2, x->dims[0], a->count);
  outputs[3] = value_of(NEAP_I32, 1, x->dims[1], 0);
  return NEAP_OK;
}

static neap_status gradient_route(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_ROUTE_BACKWARD, n, n->inputs[0], n->inputs[0], g->of[n->outputs[0]]);
}

const struct op_row op_row_route = {"Route",
                                    "the experts of each row with the highest scores, and their weights",
                                    "route",
                                    4,
                                    infer_route,
                                    gradient_route,
                                    ROW_ATTRIBUTES(route_attributes)};
const struct op_row op_row_route_backward = {"RouteBackward",    "gradient of a router's scores",
                                             .output_count = 1,  ROW_ATTRIBUTES(route_attributes),
                                             .split = {3, 1, 0}, .exact = 1};

void neap_route(neap_builder *b, neap_tensor scores, neap_route_options options, neap_routes *routes) {
  int32_t made[4] = {FAILED, FAILED, FAILED, FAILED};
  if (builder_usable(b, scores)) {
    char name[2 * NAME_LIMIT];
    builder_name(b, OP_ROUTE, name);
    const union attributes a = {.route = {options.count, options.normalised}};
    if (builder_apply(b, OP_ROUTE, name, a, &scores, 1, made) < 0)
      for (int i = 0; i < 4; i++) made[i] = FAILED;
  }
  if (routes != NULL) *routes = (neap_routes){made[0], made[1], made[2], made[3]};
}

/* ---- Linear layers ---- */

static double flops_expert_linear(const struct neap_graph *graph, const struct node *node) {
  const bool forward = node->op == OP_EXPERT_LINEAR, weights = node->op == OP_EXPERT_LINEAR_BACKWARD_WEIGHTS;
  const struct tensor *w = weights ? &graph->tensors.data[node->outputs[0]]
                                   : node_input(graph, node, forward ? EXPERT_WEIGHTS : 0),
                      *rows = node_input(graph, node, forward ? EXPERT_X : 1),
                      *ends = node_input(graph, node, EXPERT_ENDS);
  return 2.0 * (double)w->elements / (double)ends->dims[0] * (double)rows->dims[0];
}

static neap_status infer_expert_linear(const struct neap_graph *graph, const struct node *node,
                                       struct tensor *outputs) {
  TRY(need_real(graph, node, 2, "[rows, K]"));
  const struct tensor *x = node_input(graph, node, EXPERT_X), *w = node_input(graph, node, EXPERT_WEIGHTS),
                      *ends = node_input(graph, node, EXPERT_ENDS);
  RETURN_IF(
      ends->rank != 1 || w->rank != 2 || w->dims[1] != x->dims[1] || w->dims[0] % ends->dims[0] != 0,
      NEAP_INVALID_ARGUMENT,
      "ExpertLinear '%s': '%s' %s takes weights [experts * outputs, %lld] and the ends of experts' rows "
      "[experts], but '%s' is %s and '%s' %s",
      node->name, x->name, shape_text(x).text, (long long)x->dims[1], w->name, shape_text(w).text, ends->name,
      shape_text(ends).text);
  if (!dtype_is_quantised(w->dtype)) TRY(need_same_type(node, x, w));
  outputs[0] = value_of(x->dtype, 2, x->dims[0], w->dims[0] / ends->dims[0]);
  return NEAP_OK;
}

static neap_status gradient_expert_linear(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]], *in = n->inputs;
  TRY(GRADIENT_EMIT(g, OP_EXPERT_LINEAR_BACKWARD_WEIGHTS, n, in[EXPERT_WEIGHTS], in[EXPERT_X], dy,
                    in[EXPERT_ENDS]));
  return GRADIENT_EMIT(g, OP_EXPERT_LINEAR_BACKWARD_DATA, n, in[EXPERT_X], in[EXPERT_WEIGHTS], dy,
                       in[EXPERT_ENDS]);
}

const struct op_row op_row_expert_linear = {
    "ExpertLinear",
    "x W^T, rows of each expert by its own W",
    "expert_linear",
    1,
    infer_expert_linear,
    gradient_expert_linear,
    .flops = flops_expert_linear,
    .slots = EXPERT_INPUTS,
    .takes = {[EXPERT_WEIGHTS] = TYPES_FLOAT | TYPES_QUANTISED, [EXPERT_ENDS] = TYPE_I32}};
const struct op_row op_row_expert_linear_backward_data = {
    "ExpertLinearBackwardData", "gradient of an expert layer's input", .output_count = 1,
    .flops = flops_expert_linear, .takes = {[0] = TYPES_FLOAT | TYPES_QUANTISED, [EXPERT_ENDS] = TYPE_I32}};
const struct op_row op_row_expert_linear_backward_weights = {
    "ExpertLinearBackwardWeights", "gradient of an expert layer's weights", .output_count = 1,
    .flops = flops_expert_linear, .takes = {[EXPERT_ENDS] = TYPE_I32}};

neap_tensor neap_expert_linear(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor ends) {
  if (!builder_usable(b, weight)) return FAILED;
  const struct tensor *w = builder_tensor(b, weight);
  if (w->rank == 3) weight = builder_view(b, weight, 2, (int64_t[]){w->dims[0] * w->dims[1], w->dims[2]});
  return builder_next(b, OP_EXPERT_LINEAR, (union attributes){0}, (int32_t[]){x, weight, ends},
                      EXPERT_INPUTS);
}

/* ---- What experts give, together ---- */

static neap_status infer_expert_sum(const struct neap_graph *graph, const struct node *node,
                                    struct tensor *outputs) {
  TRY(need_real(graph, node, 2, "[rows of experts, K]"));
  const struct tensor *y = node_input(graph, node, SUM_Y), *weights = node_input(graph, node, SUM_WEIGHTS),
                      *places = node_input(graph, node, SUM_PLACES);
  RETURN_IF(weights->rank != 2 || places->rank != 2 || places->dims[0] != weights->dims[0] ||
                places->dims[1] != weights->dims[1] || weights->elements != y->dims[0],
            NEAP_INVALID_ARGUMENT,
            "ExpertSum '%s': '%s' %s needs weights and places [rows, experts of a row] of all its rows, but "
            "'%s' is %s and '%s' %s",
            node->name, y->name, shape_text(y).text, weights->name, shape_text(weights).text, places->name,
            shape_text(places).text);
  TRY(need_same_type(node, y, weights));
  outputs[0] = value_of(y->dtype, 2, weights->dims[0], y->dims[1]);
  return NEAP_OK;
}

static neap_status gradient_expert_sum(struct gradient *g, const struct node *n) {
  const int32_t inputs[] = {n->inputs[SUM_Y], n->inputs[SUM_WEIGHTS], n->inputs[SUM_PLACES],
                            g->of[n->outputs[0]]};
  int32_t made[2];
  if (!gradient_wanted(g, inputs[SUM_Y]) && !gradient_wanted(g, inputs[SUM_WEIGHTS])) return NEAP_OK;
  TRY(graph_add_like(g->graph, inputs[SUM_Y], n->name, &made[0]));
  TRY(graph_add_like(g->graph, inputs[SUM_WEIGHTS], n->name, &made[1]));
  TRY(graph_add_node(g->graph, (struct node){.name = n->name,
                                             .op = OP_EXPERT_SUM_BACKWARD,
                                             .pass = NEAP_PASS_BACKWARD,
                                             .inputs = inputs,
                                             .input_count = 4,
                                             .outputs = made,
                                             .output_count = 2}));
  TRY(gradient_add(g, inputs[SUM_Y], made[0]));
  return gradient_add(g, inputs[SUM_WEIGHTS], made[1]);
}

const struct op_row op_row_expert_sum = {
    "ExpertSum",      "the weighted sum of what the experts of each row gave",
    "expert_sum",     1,
    infer_expert_sum, gradient_expert_sum,
    .slots = 3,       .takes = {[SUM_PLACES] = TYPE_I32}};
const struct op_row op_row_expert_sum_backward = {"ExpertSumBackward",
                                                  "gradients of what experts gave, and of their weights",
                                                  .output_count = 2, .takes = {[SUM_PLACES] = TYPE_I32}};

neap_tensor neap_expert_sum(neap_builder *b, neap_tensor y, neap_tensor weights, neap_tensor places) {
  return builder_next(b, OP_EXPERT_SUM, (union attributes){0}, (int32_t[]){y, weights, places}, 3);
}
