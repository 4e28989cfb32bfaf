/* Quantised parameters on the CPU. */
#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"

RUN(run_dequantise) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0);
  K->dequantise(x->dtype, x->elements, in[0], stored_output(kernel, out));
  return NEAP_OK;
}
CPU_OPERATOR(dequantise, TYPES_FLOAT) {
  (void)graph, (void)node;
  p->inputs[0] = p->outputs[0] = ROW_MAJOR;
  return cpu_finish(state, p, run_dequantise, (struct cpu_kernel){0});
}
