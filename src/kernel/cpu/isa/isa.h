/* What the kernel files share: names that carry the instruction set, and how work is cut. */
#ifndef NEAP_KERNEL_CPU_ISA_ISA_H
#define NEAP_KERNEL_CPU_ISA_ISA_H

#include <omp.h>

#include "kernel/cpu/isa/kernels.h"

#define ISA_JOIN(name, isa) name##_##isa
#define ISA_NAME(name, isa) ISA_JOIN(name, isa)
#define ISA(name)           ISA_NAME(name, NEAP_ISA) /* batch_norm_avx512 */

/* Every kernel has the type of its slot in the table. */
#define DECLARE(name) __typeof__(*((struct cpu_kernels *)0)->name) ISA(name);
DECLARE(batch_norm_statistics)
DECLARE(batch_norm)
DECLARE(batch_norm_backward)
DECLARE(reduction_workspace)
DECLARE(relu)
DECLARE(relu_backward)
DECLARE(relu_mask)
DECLARE(relu_mask_backward)
DECLARE(add)
DECLARE(bias_backward)
DECLARE(bias_add)
DECLARE(max_pool)
DECLARE(max_pool_backward)
DECLARE(average_pool)
DECLARE(average_pool_backward)
DECLARE(global_average_pool)
DECLARE(global_average_pool_backward)
DECLARE(crop)
DECLARE(crop_backward)
DECLARE(resize)
DECLARE(resize_backward)
DECLARE(adaptive_average_pool)
DECLARE(adaptive_average_pool_backward)
DECLARE(softmax_cross_entropy)
DECLARE(softmax_cross_entropy_backward)
DECLARE(dropout)
DECLARE(sgd)
DECLARE(adamw)
DECLARE(running_statistics)
DECLARE(relu6)
DECLARE(relu6_backward)
DECLARE(copy_rows)
DECLARE(add_rows)
DECLARE(response_workspace)
DECLARE(local_response_norm)
DECLARE(local_response_norm_backward)
DECLARE(reorder)
#undef DECLARE

extern const struct cpu_kernels ISA(cpu_kernels);

#if defined(__AVX512F__)
enum { VECTOR_WIDTH = 16 };
#else
enum { VECTOR_WIDTH = 8 };
#endif
typedef float vector __attribute__((vector_size(4 * VECTOR_WIDTH), aligned(4)));
typedef int32_t mask __attribute__((vector_size(4 * VECTOR_WIDTH), aligned(4)));
typedef uint8_t bytes __attribute__((vector_size(VECTOR_WIDTH), aligned(1)));

/* A parallel region costs some microseconds: smaller tensors (in elements) are done by one thread. */
enum { PARALLEL_FROM = 32768 };

static inline int64_t blocks_of(struct activation a) { return (a.channels + a.lanes - 1) / a.lanes; }
static inline int64_t pixels_of(struct activation a) { return a.height * a.width; }
static inline int64_t stored_elements(struct activation a) {
  return a.images * blocks_of(a) * a.lanes * pixels_of(a);
}

/* a b + c: rounded once where the processor can, in every use alike. */
static inline float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

struct range {
  int64_t begin, end;
};
/* The part of `count` items that a thread of a team takes. */
static inline struct range part_of(int64_t count, int part, int parts) {
  return (struct range){count * part / parts, count * (part + 1) / parts};
}

#endif
