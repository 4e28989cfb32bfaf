/* Rows of sequences that a backward pass reads alone, on the CPU. */
#include "op/kept_rows.h"

#include "base/random.h"
#include "kernel/cpu/operator.h"
#include "kernel/random_stream.h"

RUN(run_kept_rows) {
  UNUSED;
  uint32_t words[4];
  random_philox(context->seed ^ random_name(RANDOM_NO_NAME, kernel_node(kernel)->name),
                kept_rows_stream(context->step), 0, words);
  kept_rows_find(&ATTRIBUTES.kept_rows, words[0], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(kept_rows, TYPES_FLOAT) {
  (void)graph, (void)node;
  return cpu_finish(state, p, run_kept_rows, (struct cpu_kernel){0});
}

/* Describes the rows of whole sequences, or of parts of them, in `full`. */
static struct kept_rows rows_in(const struct tensor *full, const struct tensor *rows, const int32_t *list) {
  return (struct kept_rows){full->dims[0], full->dims[1], rows->elements, list};
}

RUN(run_gather_rows) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, ROWS_X);
  const uint64_t row = (uint64_t)(x->elements / (x->dims[0] * x->dims[1]));
  K->gather_rows(rows_in(x, kernel_input(kernel, ROWS_LIST), in[ROWS_LIST]),
                 (size_t)dtype_bytes(x->dtype, row), in[ROWS_X], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(gather_rows, TYPES_FLOAT) {
  (void)graph, (void)node;
  p->inputs[ROWS_X] = p->inputs[ROWS_LIST] = ROW_MAJOR;
  return cpu_finish(state, p, run_gather_rows, (struct cpu_kernel){0});
}

RUN(run_scatter_rows) {
  UNUSED;
  const struct tensor *y = kernel_output(kernel, 0);
  K->scatter_rows(rows_in(y, kernel_input(kernel, ROWS_LIST), in[ROWS_LIST]),
                  y->elements / (y->dims[0] * y->dims[1]), in[ROWS_X], in[ROWS_ADDEND], out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(scatter_rows, TYPE_F32) {
  (void)graph;
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  return cpu_finish(state, p, run_scatter_rows, (struct cpu_kernel){0});
}
