/* Triangular matrices: the Cholesky factor and systems of equations, of one matrix or a batch of them. */
#include "op/builder.h"

static double side_of(const struct tensor *square) { return (double)square->dims[square->rank - 1]; }

/* Fails unless a tensor is [..., n, n]. */
static neap_status need_square(const struct node *node, const struct tensor *x) {
  RETURN_IF(x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2], NEAP_INVALID_ARGUMENT,
            "%s '%s': '%s' %s must be square matrices [..., n, n]", node_row(node)->name, node->name, x->name,
            shape_text(x).text);
  return NEAP_OK;
}

/* Splits into the matrices of a batch. */
static void split_matrices(const struct neap_graph *graph, const struct node *node, struct row_split *split) {
  if (graph->tensors.data[node->outputs[0]].rank == 2) *split = (struct row_split){0};
}

/* ---- The Cholesky factor ---- */

static neap_status infer_cholesky(const struct neap_graph *graph, const struct node *node,
                                  struct tensor *outputs) {
  TRY(need_real(graph, node, -2, "[..., n, n]"));
  TRY(need_square(node, node_input(graph, node, 0)));
  return infer_same(graph, node, outputs);
}

static neap_status gradient_cholesky(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_CHOLESKY_BACKWARD, n, n->inputs[0], n->outputs[0], g->of[n->outputs[0]]);
}

static double flops_cholesky(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *x = node_input(graph, node, 0);
  return (double)x->elements * side_of(x) / 3;
}

/* A third of n^3 for the product, n^3 and half of it for the systems. */
static double flops_cholesky_backward(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *l = node_input(graph, node, 0);
  return (double)l->elements * side_of(l) * 11 / 6;
}

const struct op_row op_row_cholesky = {"Cholesky",
                                       "lower triangular L of x = L L^T",
                                       "cholesky",
                                       1,
                                       infer_cholesky,
                                       gradient_cholesky,
                                       ROW_INPLACE(inplace_first),
                                       .flops = flops_cholesky,
                                       .split = {1, 1, 0},
                                       .split_of = split_matrices};
const struct op_row op_row_cholesky_backward = {
    "CholeskyBackward", "gradient of a Cholesky factor's matrix: symmetric",
    .output_count = 1,  .flops = flops_cholesky_backward,
    .split = {3, 1, 0}, .split_of = split_matrices,
    .exact = 1};

neap_tensor neap_cholesky(neap_builder *b, neap_tensor x) {
  return builder_next(b, OP_CHOLESKY, (union attributes){0}, (int32_t[]){x}, 1);
}

/* ---- Systems of equations ---- */

static const struct attribute_row solve_attributes[] = {ATTRIBUTE(solve.transposed, FLAG),
                                                        ATTRIBUTE(solve.right, FLAG)};

/* Infers the shape of x from l [..., n, n] and b [..., n, m], or [..., m, n] if l stands at its right. */
static neap_status infer_triangular_solve(const struct neap_graph *graph, const struct node *node,
                                          struct tensor *outputs) {
  const struct tensor *l = node_input(graph, node, 0), *b = node_input(graph, node, 1);
  const bool right = node->attributes.solve.right;
  TRY(need_real(graph, node, -2, "l [..., n, n]"));
  TRY(need_square(node, l));
  TRY(need_same_type(node, l, b));
  bool fits = b->rank == l->rank && b->dims[l->rank - (right ? 1 : 2)] == l->dims[l->rank - 1];
  for (int32_t i = 0; fits && i < l->rank - 2; i++) fits = l->dims[i] == b->dims[i];
  RETURN_IF(!fits, NEAP_INVALID_ARGUMENT,
            "TriangularSolve '%s': '%s' %s must be [..., %s] with the batch and the n of '%s' %s [..., n, n]",
            node->name, b->name, shape_text(b).text, right ? "m, n" : "n, m", l->name, shape_text(l).text);
  outputs[0] = value_like(b);
  return NEAP_OK;
}

/* The gradient of b solves the system of the transpose; that of l is a product of it and the solution. */
static neap_status gradient_triangular_solve(struct gradient *g, const struct node *n) {
  const int32_t *in = n->inputs, y = n->outputs[0];
  union attributes turned = n->attributes;
  turned.solve.transposed = !turned.solve.transposed;
  int32_t db;
  TRY(gradient_apply(g, OP_TRIANGULAR_SOLVE, n->name, turned, (int32_t[]){in[0], g->of[y]}, 2, &db));
  if (gradient_wanted(g, in[0]))
    TRY(GRADIENT_EMIT(g, OP_TRIANGULAR_SOLVE_BACKWARD, n, in[0], y, db, gradient_take(g, in[0])));
  return gradient_wanted(g, in[1]) ? gradient_add(g, in[1], db) : NEAP_OK;
}

static double flops_triangular_solve(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *b = node_input(graph, node, 1);
  return (double)b->elements * (double)b->dims[b->rank - (node->attributes.solve.right ? 1 : 2)];
}

const struct op_row op_row_triangular_solve = {"TriangularSolve",
                                               "solution of L y = b with a lower triangular L",
                                               "triangular_solve",
                                               1,
                                               infer_triangular_solve,
                                               gradient_triangular_solve,
                                               ROW_INPLACE(inplace_second),
                                               .flops = flops_triangular_solve,
                                               ROW_ATTRIBUTES(solve_attributes),
                                               .split = {3, 1, 0},
                                               .split_of = split_matrices,
                                               .exact = 1};
static const struct inplace_pair addend_inplace[] = {{0, 2}};
const struct op_row op_row_triangular_solve_backward = {
    "TriangularSolveBackward",
    "gradient of the matrix of a triangular system, added to what is there",
    .output_count = 1,
    ROW_INPLACE(addend_inplace),
    .slots = 3,
    .flops = flops_triangular_solve,
    ROW_ATTRIBUTES(solve_attributes),
    .split = {7, 1, 0},
    .split_of = split_matrices,
    .addend = 1 + 2};

neap_tensor neap_triangular_solve(neap_builder *b, neap_tensor l, neap_tensor x, bool transposed,
                                  bool right) {
  return builder_next(b, OP_TRIANGULAR_SOLVE, (union attributes){.solve = {transposed, right}},
                      (int32_t[]){l, x}, 2);
}
