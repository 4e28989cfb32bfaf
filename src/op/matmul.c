/* Products of matrices. */
#include "op/builder.h"

/* ---- Linear layers ---- */

static double flops_linear(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *w = node->op == OP_LINEAR                 ? node_input(graph, node, 1)
                           : node->op == OP_LINEAR_BACKWARD_DATA ? node_input(graph, node, 0)
                                                                 : &graph->tensors.data[node->outputs[0]];
  return 2.0 * (double)w->elements * (double)node_input(graph, node, node->op == OP_LINEAR ? 0 : 1)->dims[0];
}

static neap_status infer_linear(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  TRY(need_real(graph, node, 2, "[N, K]"));
  const struct tensor *x = node_input(graph, node, 0), *w = node_input(graph, node, 1);
  RETURN_IF(w->rank != 2 || w->dims[1] != x->dims[1], NEAP_INVALID_ARGUMENT,
            "Linear '%s': '%s' %s takes weights [outputs, %lld], but '%s' is %s", node->name, x->name,
            shape_text(x).text, (long long)x->dims[1], w->name, shape_text(w).text);
  if (!dtype_is_quantised(w->dtype)) TRY(need_same_type(node, x, w));
  TRY(need_bias(node, node_input(graph, node, 2), x, w->dims[0]));
  outputs[0] = value_of(x->dtype, 2, x->dims[0], w->dims[0]);
  return NEAP_OK;
}

static neap_status gradient_linear(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]], *in = n->inputs;
  if (in[2] != NO_TENSOR) TRY(GRADIENT_EMIT(g, OP_BIAS_BACKWARD, n, in[2], dy));
  const int32_t before = gradient_take(g, in[1]);
  TRY(GRADIENT_EMIT(g, OP_LINEAR_BACKWARD_WEIGHTS, n, in[1], in[0], dy, before));
  return GRADIENT_EMIT(g, OP_LINEAR_BACKWARD_DATA, n, in[0], in[1], dy);
}

const struct op_row op_row_linear = {"Linear",
                                     "x W^T + b",
                                     "linear",
                                     1,
                                     infer_linear,
                                     gradient_linear,
                                     .flops = flops_linear,
                                     .slots = 3,
                                     .takes = {0, TYPES_FLOAT | TYPES_QUANTISED, 0},
                                     .split = {1, 1, 0}};
const struct op_row op_row_linear_backward_data = {
    "LinearBackwardData",  "gradient of a linear layer's input",        .output_count = 1,
    .flops = flops_linear, .takes = {TYPES_FLOAT | TYPES_QUANTISED, 0}, .split = {2, 1, 0}};
static const struct inplace_pair weights_inplace[] = {{0, 2}};
const struct op_row op_row_linear_backward_weights = {
    "LinearBackwardWeights", "gradient of a linear layer's weights, added to what is there",
    .output_count = 1,       ROW_INPLACE(weights_inplace),
    .flops = flops_linear,   .split = {3, 0, 1},
    .addend = 1 + 2};
const struct op_row op_row_bias_backward = {"BiasBackward", "gradient of a bias: sum by channel",
                                            .output_count = 1, .split = {1, 0, 1}};

neap_tensor neap_linear_with(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias) {
  if (!builder_usable(b, x) || !builder_usable(b, weight)) return FAILED;
  const struct tensor t = *builder_tensor(b, x), w = *builder_tensor(b, weight);
  char name[2 * NAME_LIMIT];
  builder_name(b, OP_LINEAR, name);
  int64_t dims[NEAP_MAX_RANK];
  if (t.rank > 2) x = builder_view(b, x, 2, (int64_t[]){t.elements / t.dims[t.rank - 1], t.dims[t.rank - 1]});
  const neap_tensor y =
      builder_apply(b, OP_LINEAR, name, (union attributes){0}, (int32_t[]){x, weight, bias}, 3, NULL);
  if (y < 0 || t.rank <= 2) return y;
  for (int32_t i = 0; i < t.rank; i++) dims[i] = i + 1 < t.rank ? t.dims[i] : w.dims[0];
  return builder_view(b, y, t.rank, dims);
}

/* The parameters are named after the layer, whose name comes next. */
neap_tensor neap_linear(neap_builder *b, neap_tensor x, int64_t outputs, bool bias) {
  if (!builder_usable(b, x)) return FAILED;
  const struct tensor *t = builder_tensor(b, x);
  if (t->rank < 2 || outputs < 1)
    return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                                     "Linear to %lld outputs: '%s' %s must be [..., K] with 2 dimensions or "
                                     "more, and the outputs 1 or more",
                                     (long long)outputs, t->name, shape_text(t).text));
  const int64_t dims[] = {outputs, t->dims[t->rank - 1]};
  const neap_dtype dtype = t->dtype;
  char name[2 * NAME_LIMIT];
  builder_peek(b, OP_LINEAR, name);
  const neap_tensor weight =
      builder_variable(b, name, "weight", dtype, NEAP_ROLE_PARAMETER, NEAP_INITIAL_HE, 2, dims);
  const neap_tensor zeros =
      bias ? builder_variable(b, name, "bias", dtype, NEAP_ROLE_PARAMETER, NEAP_INITIAL_ZERO, 1, dims)
           : NO_TENSOR;
  return neap_linear_with(b, x, weight, zeros);
}

/* ---- Batches of products ---- */

static const struct attribute_row matmul_attributes[] = {ATTRIBUTE(matmul.a_transposed, FLAG),
                                                         ATTRIBUTE(matmul.b_transposed, FLAG)};

/* The size of dimension `i` of the last two, after any transposition. */
static int64_t matrix_dim(const struct tensor *t, bool transposed, int i) {
  return t->dims[t->rank - 2 + (transposed ? 1 - i : i)];
}

static neap_status infer_matmul(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  const struct tensor *a = node_input(graph, node, 0), *b = node_input(graph, node, 1);
  const struct matmul_attributes *flags = &node->attributes.matmul;
  TRY(need_real(graph, node, -2, "matrices [..., m, k]"));
  RETURN_IF(b->rank < 2 || matrix_dim(a, flags->a_transposed, 1) != matrix_dim(b, flags->b_transposed, 0),
            NEAP_INVALID_ARGUMENT,
            "MatMul '%s': '%s' %s%s and '%s' %s%s must be [..., m, k] and [..., k, n] with one k", node->name,
            a->name, shape_text(a).text, flags->a_transposed ? " as its transpose" : "", b->name,
            shape_text(b).text, flags->b_transposed ? " as its transpose" : "");
  TRY(infer_broadcast(node, a, b, 2, &outputs[0]));
  outputs[0].dims[outputs[0].rank - 2] = matrix_dim(a, flags->a_transposed, 0);
  outputs[0].dims[outputs[0].rank - 1] = matrix_dim(b, flags->b_transposed, 1);
  return NEAP_OK;
}

static double flops_matmul(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *a = node_input(graph, node, 0), *y = &graph->tensors.data[node->outputs[0]];
  return 2.0 * (double)y->elements * (double)matrix_dim(a, node->attributes.matmul.a_transposed, 1);
}

static neap_status product(struct gradient *g, const struct node *n, int32_t target, int32_t a, int32_t b,
                           bool a_transposed, bool b_transposed) {
  int32_t share;
  TRY(gradient_apply(g, OP_MATMUL, n->name, (union attributes){.matmul = {a_transposed, b_transposed}},
                     (int32_t[]){a, b}, 2, &share));
  return gradient_add_reduced(g, n->name, target, share);
}

/* Views a batch of matrices as one matrix that has all their rows. */
static neap_status as_matrix(struct gradient *g, int32_t x, int32_t *view) {
  const struct tensor *t = &g->graph->tensors.data[x];
  const int64_t width = t->dims[t->rank - 1];
  return graph_add_view(g->graph, x, 2, (int64_t[]){t->elements / width, width}, view);
}

/* For y = a b: da = dy b^T and db = a^T dy; a transposed factor gets the transpose of its gradient. */
static neap_status gradient_matmul(struct gradient *g, const struct node *n) {
  const struct matmul_attributes f = n->attributes.matmul;
  int32_t a = n->inputs[0], b = n->inputs[1], dy = g->of[n->outputs[0]];
  if (gradient_wanted(g, a))
    TRY(f.a_transposed ? product(g, n, a, b, dy, f.b_transposed, true)
                       : product(g, n, a, dy, b, false, !f.b_transposed));
  if (!gradient_wanted(g, b)) return NEAP_OK;
  if (g->graph->tensors.data[b].rank == 2 && g->graph->tensors.data[a].rank > 2 && !f.a_transposed) {
    /* One matrix for the whole batch: its gradient is one product, not the sum of a batch of them. */
    TRY(as_matrix(g, a, &a));
    TRY(as_matrix(g, dy, &dy));
  }
  return f.b_transposed ? product(g, n, b, dy, a, true, f.a_transposed)
                        : product(g, n, b, a, dy, !f.a_transposed, false);
}

/* Splits into the matrices of a batch; into rows of a, if there is one b; or, if both are summed over their
 * rows, into some of these rows. */
static void split_matmul(const struct neap_graph *graph, const struct node *node, struct row_split *split) {
  const struct matmul_attributes *flags = &node->attributes.matmul;
  if (graph->tensors.data[node->outputs[0]].rank > 2)
    split_broadcast(graph, node, split);
  else if (!flags->a_transposed)
    *split = (struct row_split){1, 1, 0};
  else
    *split = flags->b_transposed ? (struct row_split){0} : (struct row_split){3, 0, 1};
}

const struct op_row op_row_matmul = {"MatMul",
                                     "products of matrices, either transposed, with batches that broadcast",
                                     "matmul",
                                     1,
                                     infer_matmul,
                                     gradient_matmul,
                                     .flops = flops_matmul,
                                     ROW_ATTRIBUTES(matmul_attributes),
                                     .split = {3, 1, 0},
                                     .split_of = split_matmul};

neap_tensor neap_matmul(neap_builder *b, neap_tensor x, neap_tensor y, bool x_transposed, bool y_transposed) {
  return builder_next(b, OP_MATMUL, (union attributes){.matmul = {x_transposed, y_transposed}},
                      (int32_t[]){x, y}, 2);
}
