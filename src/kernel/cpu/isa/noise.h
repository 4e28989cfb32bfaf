/* Noise that is added to elements as they are read: kernel/random_stream.h has its numbers. */
#ifndef NEAP_KERNEL_CPU_ISA_NOISE_H
#define NEAP_KERNEL_CPU_ISA_NOISE_H

#include "kernel/cpu/isa/math.h"
#include "kernel/cpu/isa/random.h"
#include "kernel/cpu/isa/storage.h"

enum { NOISE_BLOCK = 4 * COUNTERS };

/* Gives the two normal numbers of a pair of words. */
INLINE void normal_pair(uint32_t size, uint32_t turn, float *first, float *second) {
  static const float quarter = 0x1.921fb6p0f; /* pi / 2 */
  const float radius = __builtin_sqrtf(-2 * logarithm((float)((size >> 8) + 1) * 0x1p-24f));
  const uint32_t corner = turn >> 30;
  /* An angle in [-pi / 4, pi / 4), by polynomials (Cephes), then `corner` quarters of a turn. */
  const float a = ((float)(turn >> 8 & 0x3FFFFF) * 0x1p-22f - 0.5f) * quarter, z = a * a;
  float sine = multiply_add(-1.9515295891e-4f, z, 8.3321608736e-3f);
  sine = multiply_add(sine, z, -1.6666654611e-1f);
  sine = multiply_add(sine * z, a, a);
  float cosine = multiply_add(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  cosine = multiply_add(cosine, z, 4.166664568298827e-2f);
  cosine = multiply_add(cosine * z, z, multiply_add(-0.5f, z, 1));
  const float x = corner & 1 ? -sine : cosine, y = corner & 1 ? cosine : sine;
  *first = radius * (corner & 2 ? -x : x);
  *second = radius * (corner & 2 ? -y : y);
}

/* Gives the numbers of NOISE_BLOCK elements, the first a multiple of that. */
static inline void normal_block(struct random_key key, uint64_t block, float z[NOISE_BLOCK]) {
  uint32_t words[4][COUNTERS];
  float by_word[4][COUNTERS];
  random_counters(key, block * COUNTERS, 1, words);
#pragma omp simd
  for (int l = 0; l < COUNTERS; l++) {
    normal_pair(words[0][l], words[1][l], &by_word[0][l], &by_word[1][l]);
    normal_pair(words[2][l], words[3][l], &by_word[2][l], &by_word[3][l]);
  }
  for (int l = 0; l < COUNTERS; l++)
    for (int w = 0; w < 4; w++) z[4 * l + w] = by_word[w][l];
}

/* y = x + the noise of `count` elements; x NULL: 0. x[0] is number `first` of what the noise is of. In
 * place. */
static inline void add_noise(const struct noise *noise, int64_t first, int64_t count, const float *x,
                             float *y) {
  first += noise->first;
  for (int64_t at = 0; at < count;) {
    float z[NOISE_BLOCK];
    const int64_t skip = (first + at) % NOISE_BLOCK, some = least(NOISE_BLOCK - skip, count - at);
    normal_block(noise->key, (uint64_t)((first + at) / NOISE_BLOCK), z);
#pragma omp simd
    for (int64_t i = 0; i < some; i++)
      y[at + i] = multiply_add(noise->scale, z[skip + i], x != NULL ? x[at + i] : 0);
    at += some;
  }
}

#endif
