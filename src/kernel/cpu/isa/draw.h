/* Many draws of a random stream at once. */
#ifndef NEAP_KERNEL_CPU_ISA_DRAW_H
#define NEAP_KERNEL_CPU_ISA_DRAW_H

#include "base/random.h"
#include "kernel/cpu/isa/math.h"

enum { DRAW_COUNTERS = 32 };

/* draws [4 counters]: the words of at most DRAW_COUNTERS consecutive counters, those of a counter side by
 * side.
 */
INLINE void draw_words(struct random_key key, uint64_t first, int counters, uint32_t *draws) {
  uint32_t word[4][DRAW_COUNTERS];
  for (int g = 0; g < counters; g++) {
    word[0][g] = (uint32_t)(first + (uint64_t)g);
    word[1][g] = (uint32_t)((first + (uint64_t)g) >> 32);
    word[2][g] = (uint32_t)key.stream;
    word[3][g] = (uint32_t)(key.stream >> 32);
  }
  for (uint32_t round = 0; round < RANDOM_ROUNDS; round++) {
#pragma omp simd
    for (int g = 0; g < counters; g++)
      random_philox_round(key.seed, round, &word[0][g], &word[1][g], &word[2][g], &word[3][g]);
  }
  for (int g = 0; g < counters; g++)
    for (int k = 0; k < 4; k++) draws[4 * g + k] = word[k][g];
}

#endif
