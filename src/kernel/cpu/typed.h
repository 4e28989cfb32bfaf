/* Operands in their types, as kernels that take any storage see them. */
#ifndef NEAP_KERNEL_CPU_TYPED_H
#define NEAP_KERNEL_CPU_TYPED_H

#include "kernel/cpu/cpu.h"

/* Input `i`; without data where the node does not have so many. */
static inline struct stored stored_input(const struct kernel *kernel, void *const *in, int32_t i) {
  if (i >= kernel_node(kernel)->input_count) return (struct stored){STORAGE_F32, NULL};
  return (struct stored){storage_of(kernel_input(kernel, i)->dtype), in[i]};
}

static inline struct stored stored_output(const struct kernel *kernel, void *const *out) {
  return (struct stored){storage_of(kernel_output(kernel, 0)->dtype), out[0]};
}

#endif
