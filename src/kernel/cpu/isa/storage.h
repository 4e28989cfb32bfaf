/* Conversion of elements of any type of storage to floats and back, in runs that stay in the cache. */
#ifndef NEAP_KERNEL_CPU_ISA_STORAGE_H
#define NEAP_KERNEL_CPU_ISA_STORAGE_H

#include <string.h>

#include "base/half.h"
#include "kernel/cpu/isa/isa.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

static inline const void *element_at(const void *x, neap_dtype storage, int64_t i) {
  return (const unsigned char *)x + (size_t)i * bytes_of(storage);
}

static inline void widen_f16(int64_t count, const uint16_t *x, float *y) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
#endif
#pragma omp simd
  for (int64_t k = i; k < count; k++) y[k] = f16_to_float(x[k]);
}

/* Clips finite values that are too large to the largest f16. */
static inline void narrow_f16(int64_t count, const float *x, uint16_t *y) {
  int64_t i = 0;
#if defined(__F16C__)
  const __m256 most = _mm256_set1_ps(65504), least = _mm256_set1_ps(-65504), sign = _mm256_set1_ps(-0.0f),
               infinity = _mm256_set1_ps(__builtin_inff());
  for (; i + 8 <= count; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i), size = _mm256_andnot_ps(sign, v),
                 finite = _mm256_cmp_ps(size, infinity, _CMP_LT_OQ),
                 bounded = _mm256_max_ps(_mm256_min_ps(v, most), least);
    const __m128i h = _mm256_cvtps_ph(_mm256_blendv_ps(v, bounded, finite), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)(y + i), h);
  }
#endif
#pragma omp simd
  for (int64_t k = i; k < count; k++) y[k] = f16_from_float(x[k]);
}

#if defined(__AVX512F__)
/* Rounds to the nearest f16 or bf16, as f16_from_float and bf16_from_float do, except that a NaN of f16
 * keeps some of its bits. Clips finite values that are too large for f16. */
static inline __m256i narrow_vector(neap_dtype storage, __m512 x) {
  if (storage == NEAP_F16) {
    const __m512 most = _mm512_set1_ps(65504);
    const __mmask16 finite =
        _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(__builtin_inff()), _CMP_LT_OQ);
    const __m512 bounded = _mm512_mask_max_ps(x, finite, _mm512_min_ps(x, most), -most);
    return _mm512_cvtps_ph(bounded, _MM_FROUND_TO_NEAREST_INT);
  }
  const __m512i bits = _mm512_castps_si512(x), upper = _mm512_srli_epi32(bits, 16),
                odd = _mm512_and_epi32(upper, _mm512_set1_epi32(1)),
                half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)),
                rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40)));
}
#endif

/* Converts elements to floats: y = x. */
static inline void widen_run(neap_dtype storage, int64_t count, const void *x, float *y) {
  const uint16_t *half = x;
  switch (storage) {
  case NEAP_F32:
    memcpy(y, x, (size_t)count * sizeof *y);
    break;
  case NEAP_F16:
    widen_f16(count, half, y);
    break;
  case NEAP_BF16:
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = bf16_to_float(half[i]);
    break;
  CASES_WITHOUT_FLOATS:
    memset(y, 0xFF, (size_t)count * sizeof *y); /* NaN */
    break;
  }
}

/* Converts floats to the nearest elements: y = x. */
static inline void narrow_run(neap_dtype storage, int64_t count, const float *x, void *y) {
  uint16_t *half = y;
#if defined(__AVX512F__)
  for (; bytes_of(storage) == sizeof *half && count >= 16; count -= 16, x += 16, half += 16)
    _mm256_storeu_si256((__m256i *)(void *)half, narrow_vector(storage, _mm512_loadu_ps(x)));
#endif
  switch (storage) {
  case NEAP_F32:
    memcpy(y, x, (size_t)count * sizeof *x);
    break;
  case NEAP_F16:
    narrow_f16(count, x, half);
    break;
  case NEAP_BF16:
#pragma omp simd
    for (int64_t i = 0; i < count; i++) half[i] = bf16_from_float(x[i]);
    break;
  CASES_WITHOUT_FLOATS:
    break;
  }
}

/* ---- Runs of elements as floats: in place if they are f32, else converted in `buffer` ---- */

enum { STORED_RUN = 1024 }; /* three buffers of them stay in the first-level cache */

/* Loops over runs; `first`: the first element of a run. */
#define FOR_RUNS(count)                                                                                      \
  _Pragma("omp parallel for if (count >= PARALLEL_FROM)") for (int64_t first = 0; first < (count);           \
                                                               first += STORED_RUN)
static inline int64_t run_length(int64_t first, int64_t count) {
  return count - first < STORED_RUN ? count - first : STORED_RUN;
}

static inline const float *floats_at(struct stored x, int64_t first, int64_t count, float *buffer) {
  if (x.storage == NEAP_F32) return (const float *)x.data + first;
  widen_run(x.storage, count, element_at(x.data, x.storage, first), buffer);
  return buffer;
}
static inline float *made_floats(struct stored y, int64_t first, float *buffer) {
  return y.storage == NEAP_F32 ? (float *)y.data + first : buffer;
}
static inline void store_floats(struct stored y, int64_t first, int64_t count, const float *buffer) {
  if (y.storage == NEAP_F32) return;
  narrow_run(y.storage, count, buffer, (void *)element_at(y.data, y.storage, first));
}

#endif
