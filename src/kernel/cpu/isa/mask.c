/* ReLU that keeps one bit an element for its gradient. */
#include <string.h>

#include "kernel/cpu/isa/isa.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Elements that a thread takes at once: their bits fill a cache line. */
enum { GROUP = 512 };
#define PRAGMA(text) _Pragma(#text)
#define FOR_GROUPS(count)                                                                                    \
  PRAGMA(omp parallel for if (count >= PARALLEL_FROM))                                                       \
  for (int64_t group = 0; group < (count); group += GROUP)

static int64_t group_end(int64_t count, int64_t group) {
  return count - group < GROUP ? count : group + GROUP;
}

/* Returns the bits of at most eight elements, set where x is above 0 or NaN. */
static uint8_t positive_few(const float *x, int64_t count) {
  unsigned bits = 0;
  for (int k = 0; k < count; k++) bits |= (unsigned)!(x[k] <= 0) << k;
  return (uint8_t)bits;
}

/* Writes the bits of VECTOR_WIDTH elements. */
static inline __attribute__((always_inline)) void positive(const float *x, uint8_t *bits) {
#if defined(__AVX512F__)
  const __mmask16 m = _mm512_cmp_ps_mask(_mm512_loadu_ps(x), _mm512_setzero_ps(), _CMP_NLE_UQ);
  bits[0] = (uint8_t)m;
  bits[1] = (uint8_t)(m >> 8);
#elif defined(__AVX2__)
  bits[0] = (uint8_t)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_setzero_ps(), _CMP_NLE_UQ));
#else
  bits[0] = positive_few(x, VECTOR_WIDTH);
#endif
}

void ISA(relu_mask)(int64_t count, const float *x, float *y, uint8_t *bits) {
  FOR_GROUPS(count) {
    const int64_t end = group_end(count, group);
    int64_t i = group;
    for (; i + VECTOR_WIDTH <= end; i += VECTOR_WIDTH) positive(x + i, bits + i / 8);
    for (; i < end; i += 8) bits[i / 8] = positive_few(x + i, end - i < 8 ? end - i : 8);
#pragma omp simd
    for (int64_t k = group; k < end; k++) y[k] = x[k] <= 0 ? 0 : x[k];
  }
}

void ISA(relu_mask_backward)(int64_t count, const uint8_t *bits, const float *dy, float *dx) {
  static const int32_t powers[] = {1,   2,   4,    8,    16,   32,   64,    128,
                                   256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  mask place;
  memcpy(&place, powers, sizeof place);
  FOR_GROUPS(count) {
    const int64_t end = group_end(count, group);
    int64_t i = group;
    for (; i + VECTOR_WIDTH <= end; i += VECTOR_WIDTH) {
      const int32_t word = bits[i / 8] | (VECTOR_WIDTH > 8 ? bits[i / 8 + 1] << 8 : 0);
      const mask kept = (((mask){0} + word) & place) != 0;
      store_vector(dx + i, (vector)((mask)load_vector(dy + i) & kept));
    }
    for (; i < end; i++) dx[i] = bits[i / 8] >> i % 8 & 1 ? dy[i] : 0;
  }
}
