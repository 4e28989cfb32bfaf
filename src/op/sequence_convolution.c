/* Lightweight and dynamic convolution over time (Wu et al. 2019). */
#include "op/builder.h"

static const struct attribute_row sequence_conv_attributes[] = {ATTRIBUTE(sequence_conv.padding, INTEGER),
                                                                ATTRIBUTE(sequence_conv.first, INTEGER)};

/* x is [N, T, C]; w is [H, K] or [N, T - first, H, K], where H divides C. */
static neap_status infer_sequence_conv(const struct neap_graph *graph, const struct node *node,
                                       struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0), *w = node_input(graph, node, 1);
  const int64_t padding = node->attributes.sequence_conv.padding,
                first = node->attributes.sequence_conv.first;
  TRY(need_real(graph, node, 3, "x [N, T, C]"));
  TRY(need_same_type(node, x, w));
  RETURN_IF(first < 0 || first >= x->dims[1], NEAP_INVALID_ARGUMENT,
            "SequenceConv '%s': the first time %lld is not in [0, %lld), the times of '%s' %s", node->name,
            (long long)first, (long long)x->dims[1], x->name, shape_text(x).text);
  const bool dynamic = w->rank == 4;
  RETURN_IF(!(dynamic ? w->dims[0] == x->dims[0] && w->dims[1] == x->dims[1] - first : w->rank == 2) ||
                x->dims[2] % w->dims[w->rank - 2] != 0,
            NEAP_INVALID_ARGUMENT,
            "SequenceConv '%s': the weights of '%s' %s must be [H, K] or [%lld, %lld, H, K] with an H that "
            "divides %lld, but '%s' is %s",
            node->name, x->name, shape_text(x).text, (long long)x->dims[0], (long long)(x->dims[1] - first),
            (long long)x->dims[2], w->name, shape_text(w).text);
  RETURN_IF(padding < 0 || padding >= w->dims[w->rank - 1], NEAP_INVALID_ARGUMENT,
            "SequenceConv '%s': padding %lld is not in [0, %lld), the length of the kernels '%s' %s",
            node->name, (long long)padding, (long long)w->dims[w->rank - 1], w->name, shape_text(w).text);
  outputs[0] = value_like(x);
  outputs[0].dims[1] -= first;
  return NEAP_OK;
}

/* Gives dx and, if needed, dw. */
static neap_status gradient_sequence_conv(struct gradient *g, const struct node *n) {
  const int32_t *in = n->inputs, inputs[] = {in[0], in[1], g->of[n->outputs[0]]};
  const bool by_weights = gradient_wanted(g, in[1]);
  int32_t outputs[2];
  TRY(graph_add_like(g->graph, in[0], "dx", &outputs[0]));
  if (by_weights) TRY(graph_add_like(g->graph, in[1], "dw", &outputs[1]));
  TRY(graph_add_node(g->graph, (struct node){.name = n->name,
                                             .op = OP_SEQUENCE_CONV_BACKWARD,
                                             .pass = NEAP_PASS_BACKWARD,
                                             .attributes = n->attributes,
                                             .inputs = inputs,
                                             .input_count = 3,
                                             .outputs = outputs,
                                             .output_count = by_weights ? 2 : 1}));
  if (by_weights) TRY(gradient_add(g, in[1], outputs[1]));
  return gradient_add(g, in[0], outputs[0]);
}

/* A product and a sum for each tap, once for each result. */
static double flops_sequence_conv(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *x = node_input(graph, node, 0), *w = node_input(graph, node, 1);
  const double times = (double)(x->dims[1] - node->attributes.sequence_conv.first);
  return 2 * (double)node->output_count * (double)(x->dims[0] * x->dims[2]) * times *
         (double)w->dims[w->rank - 1];
}

/* Each part gets all of the weights that all times share, and their gradient is a sum. */
static void split_sequence_conv(const struct neap_graph *graph, const struct node *node,
                                struct row_split *split) {
  if (node_input(graph, node, 1)->rank == 4) return;
  split->inputs &= ~2u;
  if (node->op == OP_SEQUENCE_CONV_BACKWARD) *split = (struct row_split){5, 1, 2};
}

const struct op_row op_row_sequence_conv = {"SequenceConv",
                                            "convolution over time by heads: lightweight, dynamic",
                                            "sequence_conv",
                                            1,
                                            infer_sequence_conv,
                                            gradient_sequence_conv,
                                            .flops = flops_sequence_conv,
                                            ROW_ATTRIBUTES(sequence_conv_attributes),
                                            .split = {3, 1, 0},
                                            .split_of = split_sequence_conv};
const struct op_row op_row_sequence_conv_backward = {"SequenceConvBackward",
                                                     "gradients of a convolution over time",
                                                     .output_count = 2,
                                                     ROW_INPLACE(inplace_first),
                                                     .flops = flops_sequence_conv,
                                                     ROW_ATTRIBUTES(sequence_conv_attributes),
                                                     .split = {7, 3, 0},
                                                     .split_of = split_sequence_conv};

neap_tensor neap_sequence_conv_from(neap_builder *b, neap_tensor x, neap_tensor w, int64_t padding,
                                    int64_t first) {
  return builder_next(b, OP_SEQUENCE_CONV, (union attributes){.sequence_conv = {padding, first}},
                      (int32_t[]){x, w}, 2);
}

neap_tensor neap_sequence_conv(neap_builder *b, neap_tensor x, neap_tensor w, int64_t padding) {
  return neap_sequence_conv_from(b, x, w, padding, 0);
}
