/* Convolution over time by heads, with kernels of our own, in row-major order. */
#include "kernel/cpu/operator.h"

static struct sequence_conv shape_of(const struct tensor *x, const struct tensor *w,
                                     const struct node *node) {
  const struct sequence_conv_attributes *a = &node->attributes.sequence_conv;
  return (struct sequence_conv){.sequences = x->dims[0],
                                .rows = x->dims[1],
                                .times = x->dims[1] - a->first,
                                .channels = x->dims[2],
                                .heads = w->dims[w->rank - 2],
                                .taps = w->dims[w->rank - 1],
                                .padding = a->padding - a->first,
                                .dynamic = w->rank == 4};
}

static struct sequence_conv shape_in(const struct kernel *kernel) {
  return shape_of(kernel_input(kernel, 0), kernel_input(kernel, 1), kernel_node(kernel));
}

RUN(run_sequence_conv) {
  UNUSED;
  K->sequence_conv(shape_in(kernel), in[0], in[1], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(sequence_conv, TYPE_F32) {
  (void)graph;
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  return cpu_finish(state, p, run_sequence_conv, (struct cpu_kernel){0});
}

RUN(run_sequence_conv_backward) {
  UNUSED;
  K->sequence_conv_backward(shape_in(kernel), in[0], in[1], in[2], out[0],
                            kernel_node(kernel)->output_count > 1 ? out[1] : NULL, workspace);
  return NEAP_OK;
}
CPU_OPERATOR(sequence_conv_backward, TYPE_F32) {
  const struct cpu *cpu = state;
  const struct sequence_conv s = shape_of(node_input(graph, node, 0), node_input(graph, node, 1), node);
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  if (node->output_count > 1) p->workspace = cpu->kernels->sequence_conv_workspace(s);
  return cpu_finish(cpu, p, run_sequence_conv_backward, (struct cpu_kernel){0});
}
