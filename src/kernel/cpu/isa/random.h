/* Random words of many counters at once. */
#ifndef NEAP_KERNEL_CPU_ISA_RANDOM_H
#define NEAP_KERNEL_CPU_ISA_RANDOM_H

#include "base/random.h"
#include "kernel/cpu/isa/isa.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

enum { COUNTERS = 16 };

#if defined(__AVX512F__)
/* Upper and lower halves of the products with a factor. */
static inline void multiply_words(__m512i words, uint32_t factor, __m512i *high, __m512i *low) {
  const __m512i f = _mm512_set1_epi64(factor), even = _mm512_mul_epu32(words, f),
                odd = _mm512_mul_epu32(_mm512_srli_epi64(words, 32), f);
  *high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  *low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}

/* All rounds of random_philox_round, in registers: compilers make 64-bit products of its 32-bit ones. */
static inline void random_rounds(uint64_t seed, uint32_t words[4][COUNTERS]) {
  __m512i c0 = _mm512_loadu_si512(words[0]), c1 = _mm512_loadu_si512(words[1]),
          c2 = _mm512_loadu_si512(words[2]), c3 = _mm512_loadu_si512(words[3]);
  for (uint32_t round = 0; round < RANDOM_ROUNDS; round++) {
    const uint32_t k0 = (uint32_t)seed + round * 0x9E3779B9u,
                   k1 = (uint32_t)(seed >> 32) + round * 0xBB67AE85u;
    __m512i high_a, low_a, high_b, low_b;
    multiply_words(c0, 0xD2511F53u, &high_a, &low_a);
    multiply_words(c2, 0xCD9E8D57u, &high_b, &low_b);
    c0 = _mm512_xor_si512(_mm512_xor_si512(high_b, c1), _mm512_set1_epi32((int32_t)k0));
    c1 = low_b;
    c2 = _mm512_xor_si512(_mm512_xor_si512(high_a, c3), _mm512_set1_epi32((int32_t)k1));
    c3 = low_a;
  }
  _mm512_storeu_si512(words[0], c0);
  _mm512_storeu_si512(words[1], c1);
  _mm512_storeu_si512(words[2], c2);
  _mm512_storeu_si512(words[3], c3);
}
#else
static inline void random_rounds(uint64_t seed, uint32_t words[4][COUNTERS]) {
  for (uint32_t round = 0; round < RANDOM_ROUNDS; round++)
#pragma omp simd
    for (int l = 0; l < COUNTERS; l++)
      random_philox_round(seed, round, &words[0][l], &words[1][l], &words[2][l], &words[3][l]);
}
#endif

/* Word w of the counter first + l * apart, as random_philox gives it: words[w][l]. */
static inline void random_counters(struct random_key key, uint64_t first, uint64_t apart,
                                   uint32_t words[4][COUNTERS]) {
  for (int l = 0; l < COUNTERS; l++) {
    const uint64_t counter = first + (uint64_t)l * apart;
    words[0][l] = (uint32_t)counter;
    words[1][l] = (uint32_t)(counter >> 32);
    words[2][l] = (uint32_t)key.stream;
    words[3][l] = (uint32_t)(key.stream >> 32);
  }
  random_rounds(key.seed, words);
}

/* The words of the counters first, first + 1, ...: four of each, one counter's after the other's. */
static inline void random_words(struct random_key key, uint64_t first, uint32_t words[4 * COUNTERS]) {
  uint32_t by_word[4][COUNTERS];
  random_counters(key, first, 1, by_word);
#pragma omp simd
  for (int l = 0; l < COUNTERS; l++)
    for (int w = 0; w < 4; w++) words[4 * l + w] = by_word[w][l];
}

#endif
