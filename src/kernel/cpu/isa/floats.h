/* A register of floats. */
#ifndef NEAP_KERNEL_CPU_ISA_FLOATS_H
#define NEAP_KERNEL_CPU_ISA_FLOATS_H

#include "kernel/cpu/isa/math.h"
#include "kernel/cpu/isa/storage.h"

/* As many as a register has: wider vectors would not stay in registers. */
#if defined(__AVX__)
enum { FLOATS = VECTOR_WIDTH };
#else
enum { FLOATS = 4 };
#endif
typedef float floats __attribute__((vector_size(4 * FLOATS)));
typedef int32_t ints __attribute__((vector_size(4 * FLOATS)));
typedef float floats_in_memory __attribute__((vector_size(4 * FLOATS), aligned(4)));

INLINE floats load(const float *p) { return *(const floats_in_memory *)p; }
INLINE void store(float *p, floats v) { *(floats_in_memory *)p = v; }

/* As multiply_add: rounded once where the processor can. */
INLINE floats multiply_add_vector(floats a, floats b, floats c) {
#if defined(__AVX512F__)
  return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  for (int i = 0; i < FLOATS; i++) c[i] = multiply_add(a[i], b[i], c[i]);
  return c;
#endif
}

/* Elements of any type of storage. */
INLINE floats load_stored(enum storage storage, const void *p) {
  if (storage == STORAGE_F32) return load(p);
#if defined(__AVX512F__)
  const __m256i half = _mm256_loadu_si256(p);
  if (storage == STORAGE_F16) return (floats)_mm512_cvtph_ps(half);
  return (floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
#elif defined(__F16C__) && defined(__AVX2__)
  const __m128i half = _mm_loadu_si128(p);
  if (storage == STORAGE_F16) return (floats)_mm256_cvtph_ps(half);
  return (floats)_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
#else
  float buffer[FLOATS];
  widen_run(storage, FLOATS, p, buffer);
  return load(buffer);
#endif
}
#if defined(__AVX512F__)
/* As narrow_run does. */
INLINE __m256i narrow_vector(enum storage storage, floats v) {
  const __m512 x = (__m512)v, most = _mm512_set1_ps(65504);
  if (storage == STORAGE_F16) {
    const __mmask16 finite =
        _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(__builtin_inff()), _CMP_LT_OQ);
    const __m512 bounded = _mm512_mask_max_ps(x, finite, _mm512_min_ps(x, most), -most);
    return _mm512_cvtps_ph(bounded, _MM_FROUND_TO_NEAREST_INT);
  }
  const __m512i bits = (__m512i)v, upper = _mm512_srli_epi32(bits, 16),
                odd = _mm512_and_epi32(upper, _mm512_set1_epi32(1)),
                half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)),
                rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40)));
}
#endif
INLINE void store_stored(enum storage storage, void *p, floats v) {
  if (storage == STORAGE_F32) {
    store(p, v);
    return;
  }
#if defined(__AVX512F__)
  _mm256_storeu_si256(p, narrow_vector(storage, v));
#else
  float buffer[FLOATS];
  store(buffer, v);
  narrow_run(storage, FLOATS, buffer, p);
#endif
}

/* Calls a function whose first argument is the type of storage, with code of its own for each. */
#define BY_STORAGE(storage, call, ...)                                                                       \
  do {                                                                                                       \
    if ((storage) == STORAGE_F32)                                                                            \
      call(STORAGE_F32, __VA_ARGS__);                                                                        \
    else if ((storage) == STORAGE_BF16)                                                                      \
      call(STORAGE_BF16, __VA_ARGS__);                                                                       \
    else                                                                                                     \
      call(STORAGE_F16, __VA_ARGS__);                                                                        \
  } while (0)

#endif
