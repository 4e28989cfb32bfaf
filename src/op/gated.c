/* Activations in which one half of the last axis gates the other (Dauphin et al. 2017, Shazeer 2020). */
#include "op/builder.h"

static neap_status infer_gated(const struct neap_graph *graph, const struct node *node,
                               struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  TRY(need_real(graph, node, -1, "a tensor"));
  RETURN_IF(x->dims[x->rank - 1] % 2 != 0, NEAP_INVALID_ARGUMENT,
            "%s '%s': the last axis of '%s' %s must be even", node_row(node)->name, node->name, x->name,
            shape_text(x).text);
  outputs[0] = value_like(x);
  outputs[0].dims[x->rank - 1] /= 2;
  return NEAP_OK;
}

/* Zeroes the split if the axis with the two halves is dimension 0. */
static void split_gated(const struct neap_graph *graph, const struct node *node, struct row_split *split) {
  if (node_input(graph, node, 0)->rank < 2) *split = (struct row_split){0};
}

#define GATED(NAME, id, text, about, value, slope_a, slope_b)                                                \
  static neap_status gradient_##id(struct gradient *g, const struct node *n) {                               \
    return GRADIENT_EMIT(g, OP_##NAME##_BACKWARD, n, n->inputs[0], n->inputs[0], g->of[n->outputs[0]]);      \
  }                                                                                                          \
  const struct op_row op_row_##id = {                                                                        \
      text, about, #id, 1, infer_gated, gradient_##id, .split = {1, 1, 0}, .split_of = split_gated};         \
  const struct op_row op_row_##id##_backward = {text "Backward",    "gradient of " text,                     \
                                                .output_count = 1,  ROW_INPLACE(inplace_first),              \
                                                .split = {3, 1, 0}, .split_of = split_gated};                \
  neap_tensor neap_##id(neap_builder *b, neap_tensor x) {                                                    \
    return builder_next(b, OP_##NAME, (union attributes){0}, &x, 1);                                         \
  }
#include "op/gated_list.h"
