/* What the operator table is used with: application with shape inference, and gradients that add up. */
#include "graph/op.h"

#include <stdio.h>

neap_status graph_apply(struct neap_graph *graph, enum op op, const char *name,
                        const struct attributes *attributes, const int32_t *inputs, int32_t input_count,
                        int32_t *outputs) {
  const struct op_row *row = &op_rows[op];
  struct node node = {.name = name,
                      .op = op,
                      .pass = NEAP_PASS_FORWARD,
                      .attributes = *attributes,
                      .inputs = inputs,
                      .input_count = input_count,
                      .outputs = outputs,
                      .output_count = row->output_count};
  struct tensor shapes[NODE_MAX_OUTPUTS];
  TRY(row->infer(graph, &node, shapes));
  for (int32_t i = 0; i < row->output_count; i++) {
    char text[160];
    snprintf(text, sizeof text, i == 0 ? "%s" : "%s.%d", name, i);
    shapes[i].name = text;
    TRY(graph_add_tensor(graph, shapes[i], &outputs[i]));
  }
  return graph_add_node(graph, node);
}

/* `share` under the shape of `base`. */
static neap_status reshape_share(struct neap_graph *graph, int32_t base, int32_t *share) {
  struct tensor view = graph->tensors.data[base];
  view.name = graph->tensors.data[*share].name;
  view.role = graph->tensors.data[*share].role;
  view.view_of = graph_storage(graph, *share);
  return graph_add_tensor(graph, view, share);
}

neap_status gradient_add(struct gradient *gradient, int32_t target, int32_t share) {
  struct neap_graph *graph = gradient->graph;
  const int32_t base = graph_storage(graph, target);
  if (!gradient->needed[base]) return NEAP_OK;
  if (base != target) TRY(reshape_share(graph, base, &share));
  if (gradient->of[base] < 0) {
    gradient->of[base] = share;
    return NEAP_OK;
  }
  const int32_t inputs[] = {gradient->of[base], share};
  int32_t sum;
  TRY(graph_add_like(graph, base, graph->tensors.data[base].name, &sum));
  TRY(graph_add_node(graph, (struct node){.name = graph->tensors.data[base].name,
                                          .op = OP_ADD,
                                          .pass = NEAP_PASS_BACKWARD,
                                          .inputs = inputs,
                                          .input_count = 2,
                                          .outputs = &sum,
                                          .output_count = 1}));
  gradient->of[base] = sum;
  return NEAP_OK;
}

neap_status gradient_emit(struct gradient *gradient, enum op op, const struct node *forward, int32_t target,
                          const int32_t *inputs, int32_t input_count) {
  if (!gradient->needed[graph_storage(gradient->graph, target)]) return NEAP_OK;
  int32_t output;
  TRY(graph_add_like(gradient->graph, target, forward->name, &output));
  TRY(graph_add_node(gradient->graph, (struct node){.name = forward->name,
                                                    .op = op,
                                                    .pass = NEAP_PASS_BACKWARD,
                                                    .attributes = forward->attributes,
                                                    .inputs = inputs,
                                                    .input_count = input_count,
                                                    .outputs = &output,
                                                    .output_count = 1}));
  return gradient_add(gradient, target, output);
}
