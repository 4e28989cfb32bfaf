/* Shared by the kernel files: names that carry the instruction set, and the division of work among threads.
 */
#ifndef NEAP_KERNEL_CPU_ISA_ISA_H
#define NEAP_KERNEL_CPU_ISA_ISA_H

#include <omp.h>

#include "kernel/cpu/isa/kernels.h"

#define ISA_JOIN(name, isa) name##_##isa
#define ISA_NAME(name, isa) ISA_JOIN(name, isa)
#define ISA(name)           ISA_NAME(name, NEAP_ISA) /* batch_norm_avx512 */

#define KERNEL(result, name, parameters) result ISA(name) parameters;
#include "kernel/cpu/isa/kernel_list.h"
#undef KERNEL

extern const struct cpu_kernels ISA(cpu_kernels);

#if defined(__AVX512F__)
enum { VECTOR_WIDTH = 16 };
#else
enum { VECTOR_WIDTH = 8 };
#endif
typedef float vector __attribute__((vector_size(4 * VECTOR_WIDTH)));
typedef int32_t mask __attribute__((vector_size(4 * VECTOR_WIDTH)));
typedef uint8_t bytes __attribute__((vector_size(VECTOR_WIDTH)));

/* A vector in memory, aligned to one element. Values have the type `vector` instead: compilers for ARM
 * cannot pass a vector that is aligned to less than its size. */
typedef float vector_in_memory __attribute__((vector_size(4 * VECTOR_WIDTH), aligned(4)));
static inline __attribute__((always_inline)) vector load_vector(const float *p) {
  return *(const vector_in_memory *)p;
}
static inline __attribute__((always_inline)) void store_vector(float *p, vector v) {
  *(vector_in_memory *)p = v;
}

/* Elements from which a kernel uses several threads: a parallel region costs some microseconds. */
enum { PARALLEL_FROM = 32768 };

static inline int64_t blocks_of(struct activation a) { return (a.channels + a.lanes - 1) / a.lanes; }
static inline int64_t pixels_of(struct activation a) { return a.height * a.width; }

/* Returns a b + c, rounded once if the instruction set has fused multiply-add, and in every use the same way.
 */
static inline float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(NEAP_SOFTWARE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Returns the number of rows of a result: all dimensions but the last. */
static inline int64_t rows_of(const struct strides *s) {
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < s->rank; i++) rows *= s->dims[i];
  return rows;
}
/* Returns the offset of an item of a box, where items are counted in row-major order. */
static inline int64_t offset_in(int32_t rank, const int64_t *dims, const int64_t *strides, int64_t item) {
  int64_t offset = 0;
  for (int32_t i = rank - 1; i >= 0; i--) {
    offset += item % dims[i] * strides[i];
    item /= dims[i];
  }
  return offset;
}
/* Returns the offset of row `r` in an operand with these strides. */
static inline int64_t offset_of(const struct strides *s, const int64_t *strides, int64_t r) {
  return offset_in(s->rank - 1, s->dims, strides, r);
}

/* Sums along a row are made in SUM_LANES lanes, term i in lane i % SUM_LANES, whatever the width of vectors:
 * their bits are the same with every instruction set. IN_LANES executes statements for `lane` and `i` = 0, 1,
 * ..., count - 1; sum_of_lanes adds the lanes in halves. */
enum { SUM_LANES = 16 };
#define IN_LANES(i, lane, count, ...)                                                                        \
  do {                                                                                                       \
    const int64_t end_ = (count);                                                                            \
    int64_t first_ = 0;                                                                                      \
    for (; first_ + SUM_LANES <= end_; first_ += SUM_LANES)                                                  \
      _Pragma("omp simd") for (int lane = 0; lane < SUM_LANES; lane++) {                                     \
        const int64_t i = first_ + lane;                                                                     \
        __VA_ARGS__;                                                                                         \
      }                                                                                                      \
    for (int lane = 0; first_ + lane < end_; lane++) {                                                       \
      const int64_t i = first_ + lane;                                                                       \
      __VA_ARGS__;                                                                                           \
    }                                                                                                        \
  } while (0)
#define SUM_OF_LANES(name, type)                                                                             \
  static inline type name(const type *lanes) {                                                               \
    type sums[SUM_LANES];                                                                                    \
    for (int i = 0; i < SUM_LANES; i++) sums[i] = lanes[i];                                                  \
    for (int half = SUM_LANES / 2; half > 0; half /= 2)                                                      \
      for (int i = 0; i < half; i++) sums[i] += sums[i + half];                                              \
    return sums[0];                                                                                          \
  }
SUM_OF_LANES(sum_of_lanes, double)
SUM_OF_LANES(sum_of_float_lanes, float)

struct range {
  int64_t begin, end;
};
/* Returns the items, of `count`, that thread `part` of `parts` takes. */
static inline struct range part_of(int64_t count, int part, int parts) {
  return (struct range){count * part / parts, count * (part + 1) / parts};
}

#endif
