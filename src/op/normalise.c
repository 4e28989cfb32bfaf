/* Normalisations: batch norm with its running statistics, local response normalisation. */
#include <math.h>

#include "op/builder.h"

/* ---- Batch norm ---- */

static const struct attribute_row batch_norm_attributes[] = {
    ATTRIBUTE_USUAL(batch_norm.epsilon, REAL, 1e-5),
    ATTRIBUTE_USUAL(batch_norm.momentum, REAL, 0.1),
    ATTRIBUTE(batch_norm.relu, FLAG),
    ATTRIBUTE(batch_norm.ceiling, REAL),
    ATTRIBUTE(batch_norm.count, INTEGER),
    ATTRIBUTE(batch_norm.fixed, FLAG),
};

static neap_status infer_statistics(const struct neap_graph *graph, const struct node *node,
                                    struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  TRY(need_real(graph, node, -2, "[N, C, ...]"));
  outputs[0] = outputs[1] = value_of(NEAP_F32, 1, x->dims[1], 0);
  return NEAP_OK;
}

/* Gives the gradient of the sum of a normalised x and an addend. If ReLU follows, only the sum tells which
 * elements it set to 0. */
static neap_status gradient_of_sum(struct gradient *g, const struct node *n, int32_t *dy) {
  const struct batch_norm_attributes *a = &n->attributes.batch_norm;
  const int32_t y = n->outputs[0], inputs[] = {y, *dy};
  if (!a->relu) return NEAP_OK;
  return gradient_node(g, a->ceiling != 0 ? OP_RELU6_BACKWARD : OP_RELU_BACKWARD, n->name,
                       (union attributes){0}, y, inputs, 2, dy);
}

/* One node gives all three gradients, and adds the earlier gradient of x in the same pass. */
static neap_status gradient_batch_norm(struct gradient *g, const struct node *n) {
  const int32_t *in = n->inputs, addend = in[NORM_ADDEND];
  int32_t dy = g->of[n->outputs[0]], outputs[3];
  union attributes a = n->attributes;
  if (addend != NO_TENSOR) {
    TRY(gradient_of_sum(g, n, &dy));
    TRY(gradient_add(g, addend, dy));
    a.batch_norm.relu = false;
    a.batch_norm.ceiling = 0;
    if (!gradient_wanted(g, in[NORM_X]) && !gradient_wanted(g, in[NORM_GAMMA]) &&
        !gradient_wanted(g, in[NORM_BETA]))
      return NEAP_OK;
  }
  const int32_t inputs[] = {in[0], dy, in[1], in[2], in[3], in[4], gradient_take(g, in[0])};
  TRY(graph_add_like(g->graph, in[0], "dx", &outputs[0]));
  TRY(graph_add_like(g->graph, in[3], "dgamma", &outputs[1]));
  TRY(graph_add_like(g->graph, in[4], "dbeta", &outputs[2]));
  TRY(graph_add_node(g->graph, (struct node){.name = n->name,
                                             .op = OP_BATCH_NORM_BACKWARD,
                                             .pass = NEAP_PASS_BACKWARD,
                                             .attributes = a,
                                             .inputs = inputs,
                                             .input_count = 7,
                                             .outputs = outputs,
                                             .output_count = 3}));
  TRY(gradient_add(g, in[3], outputs[1]));
  TRY(gradient_add(g, in[4], outputs[2]));
  return gradient_add(g, in[0], outputs[0]);
}

static const struct inplace_pair norm[] = {{0, NORM_X}, {0, NORM_ADDEND}};
static const struct inplace_pair norm_backward[] = {{0, 1}, {0, 6}, {0, 0}};

const struct op_row op_row_batch_norm_statistics = {
    "BatchNormStatistics",     "mean and variance by channel", .output_count = 2,
    .infer = infer_statistics, .evaluation = EVALUATION_NONE,  ROW_ATTRIBUTES(batch_norm_attributes)};
const struct op_row op_row_batch_norm = {"BatchNorm",
                                         "normalisation by channel, with or without addend and ReLU",
                                         "norm",
                                         1,
                                         infer_same,
                                         gradient_batch_norm,
                                         ROW_INPLACE(norm),
                                         ROW_ATTRIBUTES(batch_norm_attributes),
                                         .slots = NORM_INPUTS,
                                         .evaluation = EVALUATION_RUNNING,
                                         .takes = {[NORM_MEAN] = TYPE_F32, TYPE_F32, TYPE_F32, TYPE_F32}};
/* The statistics, and x where it says which elements ReLU cut. */
static uint32_t exact_in_norm(const struct node *node) {
  return 1u << 2 | 1u << 3 | (node->attributes.batch_norm.relu ? 1u : 0u);
}

const struct op_row op_row_batch_norm_backward = {
    "BatchNormBackward",
    "gradients of batch norm and its ReLU, added to what is there",
    .output_count = 3,
    ROW_INPLACE(norm_backward),
    ROW_ATTRIBUTES(batch_norm_attributes),
    .takes = {[2] = TYPE_F32, TYPE_F32, TYPE_F32, TYPE_F32},
    .exact_of = exact_in_norm};
const struct op_row op_row_running_statistics = {
    "RunningStatistics", "update: running mean and variance, once a step",
    ROW_ATTRIBUTES(batch_norm_attributes), .takes = {TYPE_F32, TYPE_F32, TYPE_F32, TYPE_F32},
    .across = ACROSS_WHOLE};

/* Makes the variables of a layer that is given none. */
static struct batch_norm_variables own_variables(neap_builder *b, const char *name, int64_t channels) {
  return (struct batch_norm_variables){
      builder_variable(b, name, "gamma", NEAP_F32, NEAP_ROLE_PARAMETER, NEAP_INITIAL_ONE, 1, &channels),
      builder_variable(b, name, "beta", NEAP_F32, NEAP_ROLE_PARAMETER, NEAP_INITIAL_ZERO, 1, &channels),
      builder_variable(b, name, "running_mean", NEAP_F32, NEAP_ROLE_STATE, NEAP_INITIAL_ZERO, 1, &channels),
      builder_variable(b, name, "running_variance", NEAP_F32, NEAP_ROLE_STATE, NEAP_INITIAL_ONE, 1,
                       &channels)};
}

/* Adds batch statistics, the running statistics that follow them, and the normalisation itself. */
neap_tensor builder_batch_norm(neap_builder *b, neap_tensor x, neap_batch_norm_options o,
                               const struct batch_norm_variables *given) {
  if (!builder_usable(b, x)) return FAILED;
  char name[2 * NAME_LIMIT];
  builder_name(b, OP_BATCH_NORM, name);
  if (!(o.epsilon >= 0 && o.epsilon < INFINITY && o.momentum >= 0 && o.momentum <= 1))
    return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                                     "BatchNorm '%s': epsilon %g must not be negative, momentum %g in [0, 1]",
                                     name, (double)o.epsilon, (double)o.momentum));
  const union attributes a = builder_attributes(
      OP_BATCH_NORM, (union attributes){.batch_norm = {.epsilon = o.epsilon, .momentum = o.momentum}});
  int32_t statistics[2];
  if (builder_apply(b, OP_BATCH_NORM_STATISTICS, name, a, &x, 1, statistics) < 0) return FAILED;
  const struct tensor *t = builder_tensor(b, x);
  const int64_t count = t->elements / t->dims[1];
  const struct batch_norm_variables v = given != NULL ? *given : own_variables(b, name, t->dims[1]);
  if (!builder_ready(b)) return FAILED;
  const int32_t inputs[] = {x, statistics[0], statistics[1], v.gamma, v.beta},
                running[] = {v.running_mean, v.running_variance},
                update[] = {statistics[0], statistics[1], running[0], running[1]};
  union attributes u = a;
  u.batch_norm.count = count; /* the unbiased variance needs it, and the update sees only [C] */
  const neap_status status = graph_add_node(builder_graph(b), (struct node){.name = name,
                                                                            .op = OP_RUNNING_STATISTICS,
                                                                            .pass = NEAP_PASS_UPDATE,
                                                                            .attributes = u,
                                                                            .inputs = update,
                                                                            .input_count = 4,
                                                                            .updates = running,
                                                                            .update_count = 2});
  if (status != NEAP_OK) return builder_fail(b, status);
  return builder_apply(b, OP_BATCH_NORM, name, a, inputs, 5, NULL);
}

neap_tensor neap_batch_norm(neap_builder *b, neap_tensor x, neap_batch_norm_options options) {
  return builder_batch_norm(b, x, options, NULL);
}

/* ---- Rows: layer, RMS and group norm ---- */

static const struct attribute_row row_norm_attributes[] = {
    ATTRIBUTE(row_norm.length, INTEGER), ATTRIBUTE(row_norm.groups, INTEGER),
    ATTRIBUTE(row_norm.inner, INTEGER),  ATTRIBUTE(row_norm.epsilon, REAL),
    ATTRIBUTE(row_norm.centred, FLAG),
};

static neap_status infer_row_norm(const struct neap_graph *graph, const struct node *node,
                                  struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  TRY(need_real(graph, node, -1, "a tensor"));
  outputs[0] = value_like(x);
  outputs[1] = outputs[2] = value_of(NEAP_F32, 1, x->elements / node->attributes.row_norm.length, 0);
  return NEAP_OK;
}

static neap_status gradient_row_norm(struct gradient *g, const struct node *n) {
  const int32_t *in = n->inputs, dy = g->of[n->outputs[0]];
  const int32_t inputs[] = {in[0], dy, n->outputs[1], n->outputs[2], in[1]};
  int32_t outputs[3];
  const bool affine = in[1] != NO_TENSOR;
  TRY(graph_add_like(g->graph, in[0], "dx", &outputs[0]));
  if (affine) TRY(graph_add_like(g->graph, in[1], "dgamma", &outputs[1]));
  if (affine) TRY(graph_add_like(g->graph, in[1], "dbeta", &outputs[2]));
  TRY(graph_add_node(g->graph, (struct node){.name = n->name,
                                             .op = OP_ROW_NORM_BACKWARD,
                                             .pass = NEAP_PASS_BACKWARD,
                                             .attributes = n->attributes,
                                             .inputs = inputs,
                                             .input_count = 5,
                                             .outputs = outputs,
                                             .output_count = affine ? 3 : 1}));
  if (affine) TRY(gradient_add(g, in[1], outputs[1]));
  if (in[2] != NO_TENSOR) TRY(gradient_add(g, in[2], outputs[2]));
  return gradient_add(g, in[0], outputs[0]);
}

/* Zeroes the split if a normalised row is longer than a row of the tensor. */
static void split_row_norm(const struct neap_graph *graph, const struct node *node, struct row_split *split) {
  const struct tensor *x = node_input(graph, node, 0);
  const struct row_norm_attributes *a = &node->attributes.row_norm;
  if (x->elements / x->dims[0] % (a->length * a->groups) != 0) *split = (struct row_split){0};
}

const struct op_row op_row_row_norm = {"RowNorm",
                                       "rows over their deviation, scaled: layer, RMS and group norm",
                                       "row_norm",
                                       3,
                                       infer_row_norm,
                                       gradient_row_norm,
                                       ROW_INPLACE(inplace_first),
                                       ROW_ATTRIBUTES(row_norm_attributes),
                                       .slots = 3,
                                       .takes = {[1] = TYPE_F32, TYPE_F32},
                                       .split = {1, 7, 0},
                                       .split_of = split_row_norm};
const struct op_row op_row_row_norm_backward = {"RowNormBackward",
                                                "gradients of a norm of rows",
                                                .output_count = 3,
                                                ROW_INPLACE(inplace_later),
                                                ROW_ATTRIBUTES(row_norm_attributes),
                                                .split = {15, 1, 6},
                                                .takes = {[2] = TYPE_F32, TYPE_F32, TYPE_F32},
                                                .split_of = split_row_norm,
                                                .exact = 1u << 2 | 1u << 3};

/* Makes gamma and, if rows are centred, beta, of `channels` elements. */
static neap_tensor row_norm(neap_builder *b, neap_tensor x, struct row_norm_attributes a, int64_t channels,
                            bool affine) {
  char name[2 * NAME_LIMIT];
  builder_peek(b, OP_ROW_NORM, name);
  int32_t gamma = NO_TENSOR, beta = NO_TENSOR;
  if (affine)
    gamma = builder_variable(b, name, "gamma", NEAP_F32, NEAP_ROLE_PARAMETER, NEAP_INITIAL_ONE, 1, &channels);
  if (affine && a.centred)
    beta = builder_variable(b, name, "beta", NEAP_F32, NEAP_ROLE_PARAMETER, NEAP_INITIAL_ZERO, 1, &channels);
  return builder_row_norm(b, x, a, gamma, beta);
}

neap_tensor builder_row_norm(neap_builder *b, neap_tensor x, struct row_norm_attributes a, neap_tensor gamma,
                             neap_tensor beta) {
  char name[2 * NAME_LIMIT];
  if (!builder_usable(b, x)) return FAILED;
  builder_name(b, OP_ROW_NORM, name);
  if (!(a.epsilon >= 0 && a.epsilon < INFINITY))
    return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT, "norm '%s': epsilon %g must not be negative",
                                     name, (double)a.epsilon));
  return builder_apply(b, OP_ROW_NORM, name, (union attributes){.row_norm = a},
                       (const int32_t[]){x, gamma, beta}, 3, NULL);
}

static neap_tensor last_axis_norm(neap_builder *b, neap_tensor x, float epsilon, bool centred) {
  if (!builder_usable(b, x)) return FAILED;
  const struct tensor *t = builder_tensor(b, x);
  const int64_t length = t->dims[t->rank - 1];
  return row_norm(b, x, (struct row_norm_attributes){length, 1, 1, epsilon, centred}, length, true);
}

neap_tensor neap_layer_norm(neap_builder *b, neap_tensor x, float epsilon) {
  return last_axis_norm(b, x, epsilon != 0 ? epsilon : 1e-5f, true);
}

neap_tensor neap_rms_norm(neap_builder *b, neap_tensor x, float epsilon) {
  return last_axis_norm(b, x, epsilon != 0 ? epsilon : 0x1p-23f, false);
}

neap_tensor neap_group_norm(neap_builder *b, neap_tensor x, int64_t groups, float epsilon) {
  if (!builder_usable(b, x)) return FAILED;
  const struct tensor *t = builder_tensor(b, x);
  if (t->rank < 2 || groups < 1 || t->dims[1] % groups != 0)
    return builder_fail(
        b, neap_fail(NEAP_INVALID_ARGUMENT,
                     "group norm: '%s' %s must be [N, C, ...] with a C that is a multiple of the %lld groups",
                     t->name, shape_text(t).text, (long long)groups));
  const int64_t channels = t->dims[1], inner = t->elements / t->dims[0] / channels;
  const struct row_norm_attributes a = {channels / groups * inner, groups, inner,
                                        epsilon != 0 ? epsilon : 1e-5f, true};
  return row_norm(b, x, a, channels, true);
}

/* ---- Local response normalisation ---- */

static const struct attribute_row response_attributes[] = {
    ATTRIBUTE_USUAL(response.size, INTEGER, 5),
    ATTRIBUTE_USUAL(response.alpha, REAL, 1e-4),
    ATTRIBUTE_USUAL(response.beta, REAL, 0.75),
    ATTRIBUTE_USUAL(response.k, REAL, 1),
};

static neap_status infer_response(const struct neap_graph *graph, const struct node *node,
                                  struct tensor *outputs) {
  TRY(need_real(graph, node, 4, "[N, C, H, W]"));
  const struct response_attributes *a = &node->attributes.response;
  RETURN_IF(a->size < 1 || a->size > INT32_MAX || !(a->alpha >= 0) || !(a->beta > 0) || !(a->k > 0),
            NEAP_INVALID_ARGUMENT,
            "LocalResponseNorm '%s': size %lld, alpha %g, beta %g and k %g must be positive", node->name,
            (long long)a->size, (double)a->alpha, (double)a->beta, (double)a->k);
  outputs[0] = value_like(node_input(graph, node, 0));
  return NEAP_OK;
}

/* Squares, sums over the window and one power for each element; the gradient has twice the sums. */
static double flops_response(const struct neap_graph *graph, const struct node *node) {
  const double window = (double)node->attributes.response.size,
               elements = (double)node_input(graph, node, 0)->elements;
  return elements * (node->op == OP_LOCAL_RESPONSE_NORM ? window + 6 : 2 * window + 12);
}

static neap_status gradient_response(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_LOCAL_RESPONSE_NORM_BACKWARD, n, n->inputs[0], n->inputs[0],
                       g->of[n->outputs[0]]);
}

const struct op_row op_row_local_response_norm = {"LocalResponseNorm",
                                                  "x over a power of its neighbours' squares by channel",
                                                  "response_norm",
                                                  1,
                                                  infer_response,
                                                  gradient_response,
                                                  ROW_INPLACE(inplace_first),
                                                  .flops = flops_response,
                                                  ROW_ATTRIBUTES(response_attributes),
                                                  .split = {1, 1, 0}};
const struct op_row op_row_local_response_norm_backward = {
    "LocalResponseNormBackward", "gradient of local response normalisation from its input",
    .output_count = 1,           ROW_INPLACE(inplace_later),
    .flops = flops_response,     ROW_ATTRIBUTES(response_attributes),
    .split = {3, 1, 0}};

neap_tensor neap_local_response_norm(neap_builder *b, neap_tensor x, neap_response_norm_options o) {
  const union attributes a = builder_attributes(
      OP_LOCAL_RESPONSE_NORM, (union attributes){.response = {o.size, o.alpha, o.beta, o.k}});
  return builder_next(b, OP_LOCAL_RESPONSE_NORM, a, &x, 1);
}
