/* Operands with their types, for kernels that take any storage. */
#ifndef NEAP_KERNEL_CPU_TYPED_H
#define NEAP_KERNEL_CPU_TYPED_H

#include "kernel/cpu/cpu.h"
#include "kernel/random_stream.h"

/* Returns input `i`, without data if it is not given. */
static inline struct stored stored_input(const struct kernel *kernel, void *const *in, int32_t i) {
  const struct tensor *x = kernel_input(kernel, i);
  return x != NULL ? (struct stored){x->dtype, in[i]} : (struct stored){NEAP_F32, NULL};
}

/* Returns the noise of input `i`, which the run gives perturbed parameters. */
static inline struct noise noise_of(const struct kernel *kernel, int32_t i,
                                    const struct run_context *context) {
  const struct tensor *x = kernel_input(kernel, i);
  if (!x->perturbed) return (struct noise){0};
  return (struct noise){
      .key = {context->seed ^ random_name(RANDOM_NO_NAME, x->name), noise_stream(context->step)},
      .scale = context->noise};
}

static inline struct stored stored_output(const struct kernel *kernel, void *const *out) {
  return (struct stored){kernel_output(kernel, 0)->dtype, out[0]};
}

#endif
