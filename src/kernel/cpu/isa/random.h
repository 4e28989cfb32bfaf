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
/* Gives the upper and lower halves of the products of words and a factor. */
static inline void multiply_words(__m512i words, uint32_t factor, __m512i *high, __m512i *low) {
  const __m512i f = _mm512_set1_epi64(factor), even = _mm512_mul_epu32(words, f),
                odd = _mm512_mul_epu32(_mm512_srli_epi64(words, 32), f);
  *high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  *low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}

/* Returns the lower halves of 16 words of 64 bits. */
static inline __m512i lower_words(__m512i first, __m512i second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(first)),
                            _mm512_cvtepi64_epi32(second), 1);
}
#endif

/* Sets words[w][l] to word w of the counter first + l * apart, as random_philox gives it. */
static inline void random_counters(struct random_key key, uint64_t first, uint64_t apart,
                                   uint32_t words[4][COUNTERS]) {
#if defined(__AVX512F__) /* by intrinsics: compilers turn the 32-bit products into 64-bit ones */
  const __m512i step = _mm512_set1_epi64((int64_t)apart), lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
                a = _mm512_add_epi64(_mm512_set1_epi64((int64_t)first), _mm512_mullo_epi64(lanes, step)),
                b = _mm512_add_epi64(a, _mm512_slli_epi64(step, 3));
  __m512i c0 = lower_words(a, b), c1 = lower_words(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32)),
          c2 = _mm512_set1_epi32((int32_t)(uint32_t)key.stream),
          c3 = _mm512_set1_epi32((int32_t)(uint32_t)(key.stream >> 32));
  for (uint32_t round = 0; round < RANDOM_ROUNDS; round++) { /* random_philox_round */
    const uint32_t k0 = (uint32_t)key.seed + round * 0x9E3779B9u,
                   k1 = (uint32_t)(key.seed >> 32) + round * 0xBB67AE85u;
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
#else
  for (int l = 0; l < COUNTERS; l++) {
    const uint64_t counter = first + (uint64_t)l * apart;
    words[0][l] = (uint32_t)counter;
    words[1][l] = (uint32_t)(counter >> 32);
    words[2][l] = (uint32_t)key.stream;
    words[3][l] = (uint32_t)(key.stream >> 32);
  }
  for (uint32_t round = 0; round < RANDOM_ROUNDS; round++)
#pragma omp simd
    for (int l = 0; l < COUNTERS; l++)
      random_philox_round(key.seed, round, &words[0][l], &words[1][l], &words[2][l], &words[3][l]);
#endif
}

/* Gives the words of the counters first, first + 1, ...: four for each counter, in order. */
static inline void random_words(struct random_key key, uint64_t first, uint32_t words[4 * COUNTERS]) {
  uint32_t by_word[4][COUNTERS];
  random_counters(key, first, 1, by_word);
#pragma omp simd
  for (int l = 0; l < COUNTERS; l++)
    for (int w = 0; w < 4; w++) words[4 * l + w] = by_word[w][l];
}

#endif
