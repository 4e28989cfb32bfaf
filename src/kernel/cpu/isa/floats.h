/* A register of floats. */
#ifndef NEAP_KERNEL_CPU_ISA_FLOATS_H
#define NEAP_KERNEL_CPU_ISA_FLOATS_H

#include "kernel/cpu/isa/math.h"
#include "kernel/cpu/isa/storage.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

/* The number of floats in a register: wider vectors would not stay in registers. */
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

/* Returns a b + c of each element, as multiply_add. */
INLINE floats multiply_add_vector(floats a, floats b, floats c) {
#if defined(__AVX512F__)
  return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#elif defined(NEAP_SOFTWARE_FMA)
  for (int i = 0; i < FLOATS; i++) c[i] = multiply_add(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}

/* Load elements of 16 bits as floats, and store floats as elements of 16 bits. */
INLINE floats load_half(neap_dtype storage, const void *p) {
#if defined(__AVX512F__)
  const __m256i half = _mm256_loadu_si256(p);
  if (storage == NEAP_F16) return (floats)_mm512_cvtph_ps(half);
  return (floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
#elif defined(__F16C__) && defined(__AVX2__)
  const __m128i half = _mm_loadu_si128(p);
  if (storage == NEAP_F16) return (floats)_mm256_cvtph_ps(half);
  return (floats)_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
#else
  float buffer[FLOATS];
  widen_run(storage, FLOATS, p, buffer);
  return load(buffer);
#endif
}
INLINE void store_half(neap_dtype storage, void *p, floats v) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(p, narrow_vector(storage, (__m512)v));
#else
  float buffer[FLOATS];
  store(buffer, v);
  narrow_run(storage, FLOATS, buffer, p);
#endif
}

/* The same for any type of storage. */
INLINE floats load_stored(neap_dtype storage, const void *p) {
  switch (storage) {
  case NEAP_F32:
    return load(p);
  case NEAP_BF16:
  case NEAP_F16:
    return load_half(storage, p);
  CASES_WITHOUT_FLOATS:
    break;
  }
  return (floats){0} + __builtin_nanf("");
}
INLINE void store_stored(neap_dtype storage, void *p, floats v) {
  switch (storage) {
  case NEAP_F32:
    store(p, v);
    break;
  case NEAP_BF16:
  case NEAP_F16:
    store_half(storage, p, v);
    break;
  CASES_WITHOUT_FLOATS:
    break;
  }
}

/* Calls a function with the type of storage as a constant first argument, so that the compiler specialises
 * it for each type. */
#define BY_STORAGE(storage, call, ...)                                                                       \
  do {                                                                                                       \
    switch (storage) {                                                                                       \
    case NEAP_F32:                                                                                           \
      call(NEAP_F32, __VA_ARGS__);                                                                           \
      break;                                                                                                 \
    case NEAP_BF16:                                                                                          \
      call(NEAP_BF16, __VA_ARGS__);                                                                          \
      break;                                                                                                 \
    case NEAP_F16:                                                                                           \
      call(NEAP_F16, __VA_ARGS__);                                                                           \
      break;                                                                                                 \
    CASES_WITHOUT_FLOATS:                                                                                    \
      break;                                                                                                 \
    }                                                                                                        \
  } while (0)

#endif
