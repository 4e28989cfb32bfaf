/* Elementwise work on any type of real numbers: some elements at a time through floats, which stay in the
 * cache. */
#ifndef NEAP_KERNEL_CPU_TYPED_H
#define NEAP_KERNEL_CPU_TYPED_H

#include "kernel/cpu/cpu.h"

enum { TYPED_INPUTS = 2 };

/* `count` elements of the inputs, as floats, to as many of the output. */
typedef void typed_chunk(const struct cpu_kernels *kernels, const struct node *node, int64_t count,
                         const float *const *in, float *out);

/* Runs `chunk` over `count` elements of the kernel's inputs (at most TYPED_INPUTS) in their types; the output
 * may lie in an input of its size. */
void run_typed(const struct kernel *kernel, void *const *in, void *const *out, int64_t count,
               typed_chunk *chunk);

/* Whether all inputs and the output are f32. */
bool is_f32(const struct kernel *kernel);

#endif
