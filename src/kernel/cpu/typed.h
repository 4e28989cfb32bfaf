/* Operands with their types, for kernels that take any storage. */
#ifndef NEAP_KERNEL_CPU_TYPED_H
#define NEAP_KERNEL_CPU_TYPED_H

#include "kernel/cpu/cpu.h"

/* Returns input `i`, without data if it is not given. */
static inline struct stored stored_input(const struct kernel *kernel, void *const *in, int32_t i) {
  const struct tensor *x = kernel_input(kernel, i);
  return x != NULL ? (struct stored){x->dtype, in[i]} : (struct stored){NEAP_F32, NULL};
}

static inline struct stored stored_output(const struct kernel *kernel, void *const *out) {
  return (struct stored){kernel_output(kernel, 0)->dtype, out[0]};
}

#endif
