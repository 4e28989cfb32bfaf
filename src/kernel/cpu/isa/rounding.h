/* Stochastic rounding to 16 bits, to one of the two neighbours. A counter serves eight elements, 16 bits
 * each. */
#ifndef NEAP_KERNEL_CPU_ISA_ROUNDING_H
#define NEAP_KERNEL_CPU_ISA_ROUNDING_H

#include "kernel/cpu/isa/random.h"
#include "kernel/cpu/isa/storage.h"

enum { ROUNDED_BLOCK = 8 * COUNTERS };

/* Rounds x at random. `storage`: a type of 16 bits. */
static inline __attribute__((always_inline)) uint16_t rounded_randomly(neap_dtype storage, float x,
                                                                       uint32_t random) {
  return storage == NEAP_BF16 ? bf16_from_float_randomly(x, random) : f16_from_float_randomly(x, random);
}

/* Returns the 16 random bits of element `i` of a block: the lower half of a word comes first. */
static inline uint16_t half_of(const uint16_t *halves, int i) {
  return halves[__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? i : i ^ 1];
}

/* Rounds a whole block, which begins a counter. */
static inline __attribute__((always_inline)) void round_block(neap_dtype storage, const uint16_t *halves,
                                                              const float *x, uint16_t *y) {
#pragma omp simd
  for (int i = 0; i < ROUNDED_BLOCK; i++) y[i] = rounded_randomly(storage, x[i], half_of(halves, i));
}

/* Rounds `count` elements; x[0] is number `first` of its tensor. */
static inline void narrow_run_randomly(neap_dtype storage, int64_t count, const float *x, uint16_t *y,
                                       struct random_key key, int64_t first) {
  const int64_t end = (first + count + ROUNDED_BLOCK - 1) / ROUNDED_BLOCK;
  for (int64_t block = first / ROUNDED_BLOCK; block < end; block++) {
    const int64_t at = block * ROUNDED_BLOCK - first;
    uint32_t words[4 * COUNTERS];
    uint16_t halves[ROUNDED_BLOCK];
    random_words(key, (uint64_t)block * COUNTERS, words);
    memcpy(halves, words, sizeof halves);
    if (at >= 0 && at + ROUNDED_BLOCK <= count && storage == NEAP_BF16)
      round_block(NEAP_BF16, halves, x + at, y + at);
    else if (at >= 0 && at + ROUNDED_BLOCK <= count)
      round_block(NEAP_F16, halves, x + at, y + at);
    else
      for (int i = 0; i < ROUNDED_BLOCK; i++)
        if (at + i >= 0 && at + i < count)
          y[at + i] = rounded_randomly(storage, x[at + i], half_of(halves, i));
  }
}

#endif
