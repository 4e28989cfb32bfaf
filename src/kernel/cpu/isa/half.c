/* Numbers of 16 bits: conversions, where the processor has them its own. */
#include "base/half.h"

#include "kernel/cpu/isa/isa.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#define FOR_ELEMENTS(count)                                                                                  \
  _Pragma("omp parallel for simd if (count >= PARALLEL_FROM)") for (int64_t i = 0; i < count; i++)

void ISA(bf16_widen)(int64_t count, const uint16_t *x, float *y) {
  FOR_ELEMENTS(count) y[i] = bf16_to_float(x[i]);
}

void ISA(bf16_narrow)(int64_t count, const float *x, uint16_t *y) {
  FOR_ELEMENTS(count) y[i] = bf16_from_float(x[i]);
}

void ISA(f16_widen)(int64_t count, const uint16_t *x, float *y) {
#if defined(__F16C__)
  const int64_t whole = count / 8 * 8;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t i = 0; i < whole; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
  for (int64_t i = whole; i < count; i++) y[i] = f16_to_float(x[i]);
#else
  FOR_ELEMENTS(count) y[i] = f16_to_float(x[i]);
#endif
}

/* What is finite and too large is cut before it is converted. */
void ISA(f16_narrow)(int64_t count, const float *x, uint16_t *y) {
#if defined(__F16C__)
  const int64_t whole = count / 8 * 8;
  const __m256 most = _mm256_set1_ps(65504), least = _mm256_set1_ps(-65504), sign = _mm256_set1_ps(-0.0f),
               infinity = _mm256_set1_ps(__builtin_inff());
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t i = 0; i < whole; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i), size = _mm256_andnot_ps(sign, v),
                 finite = _mm256_cmp_ps(size, infinity, _CMP_LT_OQ),
                 cut = _mm256_max_ps(_mm256_min_ps(v, most), least);
    const __m128i h = _mm256_cvtps_ph(_mm256_blendv_ps(v, cut, finite), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)(y + i), h);
  }
  for (int64_t i = whole; i < count; i++) y[i] = f16_from_float(x[i]);
#else
  FOR_ELEMENTS(count) y[i] = f16_from_float(x[i]);
#endif
}
