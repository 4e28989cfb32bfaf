/* Positions and lengths of sequences on our own kernels. */
#include "kernel/cpu/operator.h"

RUN(run_positions) {
  UNUSED;
  const struct positions_attributes *a = &ATTRIBUTES.positions;
  K->positions(a->length, a->width / 2, a->first, out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(positions, TYPE_F32) {
  (void)graph, (void)node;
  return cpu_finish(state, p, run_positions, (struct cpu_kernel){0});
}

RUN(run_sequence_mask) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0);
  const int64_t rows = x->dims[0] * x->dims[1];
  K->sequence_mask(x->dims[0], x->dims[1], (size_t)dtype_bytes(x->dtype, (uint64_t)(x->elements / rows)),
                   in[1], in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(sequence_mask, TYPES_FLOAT) {
  (void)graph;
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  return cpu_finish(state, p, run_sequence_mask, (struct cpu_kernel){0});
}

RUN(run_sequence_lengths) {
  UNUSED;
  const struct tensor *ids = kernel_input(kernel, 0);
  K->sequence_lengths(ids->dims[0], ids->dims[1], in[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(sequence_lengths, TYPE_F32) {
  (void)graph, (void)node;
  p->inputs[0] = ROW_MAJOR;
  return cpu_finish(state, p, run_sequence_lengths, (struct cpu_kernel){0});
}
