/* Numbers of 16 bits and floats: bf16 (the upper half of a float) and f16 (IEEE 754 binary16), without
 * branches, so that loops over them become vectors. To 16 bits: to the nearest, ties to even; what f16 cannot
 * hold becomes its largest number, infinities and NaN stay. */
#ifndef NEAP_BASE_HALF_H
#define NEAP_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float half_float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float bf16_to_float(uint16_t x) { return half_float_of((uint32_t)x << 16); }

static inline uint16_t bf16_from_float(float x) {
  const uint32_t bits = half_bits_of(x), rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(x == x ? rounded : (bits >> 16 | 0x40)); /* a NaN stays one */
}

/* The exponent is rebased by a product, which also makes subnormal numbers normal. */
static inline float f16_to_float(uint16_t x) {
  const uint32_t sign = (uint32_t)(x & 0x8000) << 16, rest = (uint32_t)(x & 0x7FFF) << 13;
  const float scaled = half_float_of(rest) * 0x1p112f;
  const uint32_t bits = (x & 0x7C00) == 0x7C00 ? (rest | 0x7F800000) : half_bits_of(scaled);
  return half_float_of(sign | bits);
}

static inline uint16_t f16_from_float(float x) {
  const uint32_t bits = half_bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7FFFFFFF;
  /* Below the least normal number: a sum with a constant leaves the subnormal's bits at its end. */
  const uint32_t small = half_bits_of(half_float_of(rest) + 0.5f) - 0x3F000000;
  const uint32_t normal = (rest - 0x38000000 + 0xFFF + (rest >> 13 & 1)) >> 13;
  const uint32_t finite = rest < 0x38800000 ? small : normal;
  const uint32_t cut = finite > 0x7BFF ? 0x7BFF : finite;
  return (uint16_t)(sign | (rest > 0x7F800000 ? 0x7E00 : rest == 0x7F800000 ? 0x7C00 : cut));
}

/* To one of the two neighbours of x, the nearer the likelier: `random` is uniform in [0, 2^16). What is
 * finite stays finite. */
static inline uint16_t bf16_from_float_randomly(float x, uint32_t random) {
  const uint32_t bits = half_bits_of(x), finite = (bits & 0x7F800000) != 0x7F800000;
  const uint32_t rounded = (bits + (finite ? random : 0)) >> 16;
  const uint32_t bounded = finite && (rounded & 0x7FFF) > 0x7F7F ? (rounded & 0x8000) | 0x7F7F : rounded;
  return (uint16_t)(x == x ? bounded : (bits >> 16 | 0x40));
}

static inline uint16_t f16_from_float_randomly(float x, uint32_t random) {
  const uint32_t bits = half_bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7FFFFFFF;
  /* Subnormal numbers are multiples of 2^-24. Their 10 bits and 13 of the random ones fit a float. */
  const float steps = half_float_of(rest < 0x38800000 ? rest : 0) * 0x1p24f;
  const uint32_t small = (uint32_t)(steps + (float)(random >> 3) * 0x1p-13f);
  const uint32_t normal = (rest - 0x38000000 + (random >> 3)) >> 13;
  const uint32_t finite = rest < 0x38800000 ? small : normal;
  const uint32_t cut = finite > 0x7BFF ? 0x7BFF : finite;
  return (uint16_t)(sign | (rest > 0x7F800000 ? 0x7E00 : rest == 0x7F800000 ? 0x7C00 : cut));
}

#endif
