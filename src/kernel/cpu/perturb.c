/* Parameters with noise on the CPU. */
#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"

RUN(run_perturb) {
  (void)workspace;
  K->perturb(kernel_input(kernel, 0)->elements, noise_of(kernel, 0, context), stored_input(kernel, in, 0),
             stored_output(kernel, out));
  return NEAP_OK;
}
CPU_OPERATOR(perturb, TYPES_FLOAT) {
  (void)graph, (void)node;
  p->inputs[0] = p->outputs[0] = ROW_MAJOR;
  return cpu_finish(state, p, run_perturb, (struct cpu_kernel){0});
}
