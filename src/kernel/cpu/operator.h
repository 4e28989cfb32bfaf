/* Macros for operators on our own kernels: RUN(run_x) { ... } and CPU_OPERATOR(x, types) { ... }. */
#ifndef NEAP_KERNEL_CPU_OPERATOR_H
#define NEAP_KERNEL_CPU_OPERATOR_H

#include "kernel/cpu/cpu.h"

#define RUN(name)                                                                                            \
  static neap_status name(const struct kernel *kernel, void *const *in, void *const *out, void *workspace,   \
                          const struct run_context *context)

/* For use inside RUN. */
#define UNUSED     (void)in, (void)out, (void)workspace, (void)context
#define K          cpu_kernel(kernel)->kernels
#define ATTRIBUTES kernel_node(kernel)->attributes

/* Sets run and state. */
neap_status cpu_finish(const struct cpu *cpu, struct preparation *p, kernel_run *run,
                       struct cpu_kernel kernel);

/* Looks for overflow in a gradient that is added up, in its memory order. */
static inline void look_for_overflow(const struct kernel *kernel, neap_dtype storage, int64_t count,
                                     const void *gradient, const struct run_context *context) {
  if (context->largest > 0 && K->reaches(storage, count, gradient, context->largest))
    *context->overflowed = true;
}

#endif
