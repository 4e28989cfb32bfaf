#include "kernel/cpu/operator.h"

neap_status cpu_finish(const struct cpu *cpu, struct preparation *p, kernel_run *run,
                       struct cpu_kernel kernel) {
  kernel.kernels = cpu->kernels;
  p->run = run;
  p->state = region_copy(p->region, &kernel, 1, sizeof kernel);
  RETURN_IF_NULL(p->state);
  return NEAP_OK;
}
