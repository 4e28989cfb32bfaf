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
typedef float floats_in_memory __attribute__((vector_size(4 * FLOATS), aligned(4)));

INLINE floats load(const float *p) { return *(const floats_in_memory *)p; }
INLINE void store(float *p, floats v) { *(floats_in_memory *)p = v; }

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
INLINE void store_stored(enum storage storage, void *p, floats v) {
  float buffer[FLOATS];
  if (storage == STORAGE_F32) {
    store(p, v);
    return;
  }
  store(buffer, v);
  narrow_run(storage, FLOATS, buffer, p);
}

#endif
