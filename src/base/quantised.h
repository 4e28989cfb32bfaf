/* Quantised types: blocks of numbers that share a scale. Those of GGUF are byte for byte as ggml has them
 * (block_q8_0 and its like). A block of nf4 is what bitsandbytes has in two tensors: 32 bytes of packed
 * numbers, then their absmax, which is its scale; one of i8 what it has for LLM.int8(), where each block of a
 * row repeats the absmax of the whole row. A type is a row of QUANTISED_TYPES, its block and how that becomes
 * numbers; and, where numbers become blocks here, a row in quantised.c. */
#ifndef NEAP_BASE_QUANTISED_H
#define NEAP_BASE_QUANTISED_H

#include <stddef.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "base/status.h"

/* NAME, block, elements of a block. */
#define QUANTISED_TYPES(ROW)                                                                                 \
  ROW(Q8_0, q8_0, 32)                                                                                        \
  ROW(Q4_0, q4_0, 32)                                                                                        \
  ROW(Q4_1, q4_1, 32)                                                                                        \
  ROW(Q5_0, q5_0, 32)                                                                                        \
  ROW(Q5_1, q5_1, 32)                                                                                        \
  ROW(Q4_K, q4_k, 256)                                                                                       \
  ROW(Q5_K, q5_k, 256)                                                                                       \
  ROW(Q6_K, q6_k, 256)                                                                                       \
  ROW(NF4, nf4, 64)                                                                                          \
  ROW(I8, i8, 64)                                                                                            \
  ROW(DYN8S, dyn8s, 256)                                                                                     \
  ROW(DYN8U, dyn8u, 256)                                                                                     \
  ROW(C8, c8, 256)                                                                                           \
  ROW(C4, c4, 256)

/* Scales and least numbers are f16. Of two numbers in a byte the low one is the first of its half. */
struct q8_0 {
  uint16_t scale;
  int8_t q[32];
};
struct q4_0 {
  uint16_t scale;
  uint8_t q[16]; /* numbers 0 to 15, and 16 to 31 */
};
struct q4_1 {
  uint16_t scale, least;
  uint8_t q[16];
};
struct q5_0 {
  uint16_t scale;
  uint8_t high[4]; /* bit i: bit 4 of number i */
  uint8_t q[16];
};
struct q5_1 {
  uint16_t scale, least;
  uint8_t high[4], q[16];
};
struct q4_k {
  uint16_t scale, least;
  uint8_t scales[12]; /* of 8 parts of 32 numbers: 6 bits for the scale and 6 for the least number */
  uint8_t q[128];     /* of parts 0 and 1, 2 and 3, ... */
};
struct q5_k {
  uint16_t scale, least;
  uint8_t scales[12];
  uint8_t high[32]; /* bit p of byte i: bit 4 of number i of part p */
  uint8_t q[128];
};
struct q6_k {
  uint8_t q[128];    /* of each half of 128: 64 numbers, then 64 */
  uint8_t high[64];  /* of each half: bits 4 and 5 of numbers i, 32 + i, 64 + i, 96 + i */
  int8_t scales[16]; /* of 16 numbers each */
  uint16_t scale;
};

struct nf4 {
  uint8_t q[32]; /* the high half of a byte is the first of two numbers */
  float scale;
};
struct i8 {
  int8_t q[64];
  float absmax; /* of the row */
};

/* Blocks of optimizer states of 8 bits (Dettmers et al. 2022). */
struct dyn8s {
  uint8_t q[256]; /* indices into bitsandbytes' map */
  float absmax;
};
struct dyn8u {
  uint8_t q[256];
  float absmax;
};
extern const float dyn8s_map[256], dyn8u_map[256];

/* Blocks of values that a gradient reads (Chen et al. 2021, ActNN): x is least + step q. Both are bf16. */
enum { COMPRESSED_BLOCK = 256, NOT_FINITE = 0x7FC0 /* NaN in bf16 */ };
struct c8 {
  uint16_t step, least;
  uint8_t q[256];
};
struct c4 {
  uint16_t step, least;
  uint8_t q[128]; /* the low half of a byte is number i, the high half number 128 + i */
};

/* Every product of ggml's types below is exact: a scale has 11 bits, its factor at most 8, a number at
 * most 6. So the values are the same with and without fused operations. The sum with 0 takes the sign off a
 * 0, which would not be there after the next rounding. */
/* `i`: each of the 16 or 32 numbers of a block. Where vectors have 8, GCC would unroll the loop, and then
 * take one number at a time. */
#if defined(__AVX2__) && !defined(__AVX512F__)
#define FOR_NUMBERS(count) _Pragma("GCC unroll 1") for (int i = 0; i < (count); i++)
#else
#define FOR_NUMBERS(count) for (int i = 0; i < (count); i++)
#endif

static inline float f16_at(const void *block, size_t place) {
  uint16_t x;
  memcpy(&x, (const unsigned char *)block + place, sizeof x);
  return f16_to_float(x);
}

/* Copies the packed numbers of a block, which x may overlap. They go to a register then, where a copy of the
 * whole block would go through memory; and a loop for each half takes 16 numbers at once. */
#define COPY_NUMBERS(type, block, to)                                                                        \
  memcpy(to, (const unsigned char *)(block) + offsetof(struct type, q), sizeof(to))

static inline void q8_0_to_floats(const void *block, float *x) {
  int8_t q[32];
  const float scale = f16_at(block, offsetof(struct q8_0, scale));
  COPY_NUMBERS(q8_0, block, q);
  FOR_NUMBERS(32) x[i] = scale * (float)q[i] + 0.0f;
}

static inline void q4_0_to_floats(const void *block, float *x) {
  uint8_t q[16];
  const float scale = f16_at(block, offsetof(struct q4_0, scale));
  COPY_NUMBERS(q4_0, block, q);
  FOR_NUMBERS(16) x[i] = scale * (float)((q[i] & 15) - 8) + 0.0f;
  FOR_NUMBERS(16) x[16 + i] = scale * (float)((q[i] >> 4) - 8) + 0.0f;
}

static inline void q4_1_to_floats(const void *block, float *x) {
  uint8_t q[16];
  const float scale = f16_at(block, offsetof(struct q4_1, scale)),
              least = f16_at(block, offsetof(struct q4_1, least)) + 0.0f;
  COPY_NUMBERS(q4_1, block, q);
  FOR_NUMBERS(16) x[i] = scale * (float)(q[i] & 15) + least;
  FOR_NUMBERS(16) x[16 + i] = scale * (float)(q[i] >> 4) + least;
}

/* Returns bits 4 of 32 numbers: bit i is that of number i. */
static inline uint32_t fifth_bits(const void *block, size_t place) {
  uint8_t high[4];
  memcpy(high, (const unsigned char *)block + place, sizeof high);
  return (uint32_t)high[0] | (uint32_t)high[1] << 8 | (uint32_t)high[2] << 16 | (uint32_t)high[3] << 24;
}

/* Bit 4 of number i, from these. */
static inline int fifth_bit(uint32_t bits, int i) { return (int)(bits >> i & 1) << 4; }

static inline void q5_0_to_floats(const void *block, float *x) {
  uint8_t q[16];
  const float scale = f16_at(block, offsetof(struct q5_0, scale));
  const uint32_t high = fifth_bits(block, offsetof(struct q5_0, high));
  COPY_NUMBERS(q5_0, block, q);
  FOR_NUMBERS(16) x[i] = scale * (float)(((q[i] & 15) | fifth_bit(high, i)) - 16) + 0.0f;
  FOR_NUMBERS(16) x[16 + i] = scale * (float)((q[i] >> 4 | fifth_bit(high, 16 + i)) - 16) + 0.0f;
}

static inline void q5_1_to_floats(const void *block, float *x) {
  uint8_t q[16];
  const float scale = f16_at(block, offsetof(struct q5_1, scale)),
              least = f16_at(block, offsetof(struct q5_1, least)) + 0.0f;
  const uint32_t high = fifth_bits(block, offsetof(struct q5_1, high));
  COPY_NUMBERS(q5_1, block, q);
  FOR_NUMBERS(16) x[i] = scale * (float)((q[i] & 15) | fifth_bit(high, i)) + least;
  FOR_NUMBERS(16) x[16 + i] = scale * (float)(q[i] >> 4 | fifth_bit(high, 16 + i)) + least;
}

/* The 6 bits of part p's scale and of its least number. */
static inline int k_scale(const uint8_t s[12], int p) {
  return p < 4 ? s[p] & 63 : (s[p + 4] & 15) | (s[p - 4] >> 2 & 48);
}
static inline int k_least(const uint8_t s[12], int p) {
  return p < 4 ? s[p + 4] & 63 : s[p + 4] >> 4 | (s[p] >> 2 & 48);
}

static inline void q4_k_to_floats(const void *block, float *x) {
  struct q4_k b;
  memcpy(&b, block, sizeof b);
  for (int p = 0; p < 8; p++) {
    const float scale = f16_to_float(b.scale) * (float)k_scale(b.scales, p),
                least = f16_to_float(b.least) * (float)k_least(b.scales, p);
    for (int i = 0; i < 32; i++)
      x[32 * p + i] = scale * (float)(b.q[p / 2 * 32 + i] >> p % 2 * 4 & 15) - least + 0.0f;
  }
}

static inline void q5_k_to_floats(const void *block, float *x) {
  struct q5_k b;
  memcpy(&b, block, sizeof b);
  for (int p = 0; p < 8; p++) {
    const float scale = f16_to_float(b.scale) * (float)k_scale(b.scales, p),
                least = f16_to_float(b.least) * (float)k_least(b.scales, p);
    for (int i = 0; i < 32; i++) {
      const int q = (b.q[p / 2 * 32 + i] >> p % 2 * 4 & 15) | (b.high[i] >> p & 1) << 4;
      x[32 * p + i] = scale * (float)q - least + 0.0f;
    }
  }
}

static inline void q6_k_to_floats(const void *block, float *x) {
  struct q6_k b;
  memcpy(&b, block, sizeof b);
  for (int p = 0; p < 16; p++) { /* part p begins at number 16 p: of its half, quarter p / 2 % 4 */
    const uint8_t *low = b.q + p / 8 * 64 + p % 4 * 16, *high = b.high + p / 8 * 32 + p % 2 * 16;
    const float scale = f16_to_float(b.scale) * (float)b.scales[p];
    for (int i = 0; i < 16; i++) {
      const int q = (low[i] >> p / 4 % 2 * 4 & 15) | (high[i] >> p / 2 % 4 * 2 & 3) << 4;
      x[16 * p + i] = scale * (float)(q - 32) + 0.0f;
    }
  }
}

static inline void nf4_to_floats(const void *block, float *x) {
  static const float table[16] = {-1.0f,
                                  -0.6961928009986877f,
                                  -0.5250730514526367f,
                                  -0.39491748809814453f,
                                  -0.28444138169288635f,
                                  -0.18477343022823334f,
                                  -0.09105003625154495f,
                                  0.0f,
                                  0.07958029955625534f,
                                  0.16093020141124725f,
                                  0.24611230194568634f,
                                  0.33791524171829224f,
                                  0.44070982933044434f,
                                  0.5626170039176941f,
                                  0.7229568362236023f,
                                  1.0f};
  struct nf4 b;
  memcpy(&b, block, sizeof b);
  for (int i = 0; i < 32; i++) {
    x[2 * i] = table[b.q[i] >> 4] * b.scale + 0.0f;
    x[2 * i + 1] = table[b.q[i] & 15] * b.scale + 0.0f;
  }
}

/* As bitsandbytes' int8_vectorwise_dequant: two products, each rounded. */
static inline void i8_to_floats(const void *block, float *x) {
  struct i8 b;
  memcpy(&b, block, sizeof b);
  for (int i = 0; i < 64; i++) x[i] = (float)b.q[i] * b.absmax * 0.007874015718698502f + 0.0f;
}

static inline void dyn8s_to_floats(const void *block, float *x) {
  struct dyn8s b;
  memcpy(&b, block, sizeof b);
  for (int i = 0; i < 256; i++) x[i] = dyn8s_map[b.q[i]] * b.absmax;
}

static inline void dyn8u_to_floats(const void *block, float *x) {
  struct dyn8u b;
  memcpy(&b, block, sizeof b);
  for (int i = 0; i < 256; i++) x[i] = dyn8u_map[b.q[i]] * b.absmax;
}

/* The product is exact: a step has 8 bits, a number at most 8. */
static inline void c8_to_floats(const void *block, float *x) {
  struct c8 b;
  memcpy(&b, block, sizeof b);
  const float step = bf16_to_float(b.step), least = bf16_to_float(b.least);
  for (int i = 0; i < 256; i++) x[i] = least + step * (float)b.q[i];
}

static inline void c4_to_floats(const void *block, float *x) {
  struct c4 b;
  memcpy(&b, block, sizeof b);
  const float step = bf16_to_float(b.step), least = bf16_to_float(b.least);
  for (int i = 0; i < 128; i++) {
    x[i] = least + step * (float)(b.q[i] & 15);
    x[128 + i] = least + step * (float)(b.q[i] >> 4);
  }
}

/* The spacing of the numbers of a block of C8 or C4. */
struct spacing {
  uint16_t step, least; /* bf16 */
  int32_t most;         /* the largest q: 255 or 15 */
};

/* Returns the spacing of numbers from `low` to `high`. Least is rounded down, then step is rounded up, so
 * that every x lies from least to least + most step: rounding x at random to one of its two neighbours keeps
 * its mean, and none is cut. `finite` false, or a span that f32 does not have: both are NaN, and so are all
 * numbers of the block. */
static inline struct spacing spacing_of(neap_dtype dtype, bool finite, float low, float high) {
  struct spacing s = {NOT_FINITE, NOT_FINITE, dtype == NEAP_C8 ? 255 : 15};
  const uint32_t bits = half_bits_of(low + 0.0f); /* takes the sign off a 0 */
  const uint16_t least = (uint16_t)((bits + (low < 0 && (bits & 0xFFFF) != 0 ? 0x10000u : 0u)) >> 16);
  const float span = high - bf16_to_float(least);
  if (!finite || !(span < __builtin_inff())) return s;
  const double exact = (double)high - (double)bf16_to_float(least);
  s.least = least;
  s.step = (uint16_t)(half_bits_of((float)(exact / s.most)) >> 16);
  while ((double)bf16_to_float(s.step) * s.most < exact) s.step++;
  return s;
}

/* Returns the number q of x, rounded up if `random`, uniform in [0, 2^16), is below the place of x between
 * its neighbours: the mean is x but for 2^-17 steps. */
static inline int32_t compressed_number(struct spacing s, float x, uint32_t random) {
  const float step = s.step != 0 ? bf16_to_float(s.step) : 1, place = (x - bf16_to_float(s.least)) / step;
  const int32_t below = (int32_t)place,
                q = below + (((float)random + 0.5f) * 0x1p-16f < place - (float)below ? 1 : 0);
  return q < s.most ? q : s.most;
}

/* Writes 256 numbers as a block of DYN8S or DYN8U, as bitsandbytes' CPU code: over the largest size, to the
 * nearest of the map, to the lower one of two that are as near. A block with a NaN is NaN, and one with an
 * infinite number is infinite or NaN. */
static inline void dyn8_from_floats(neap_dtype dtype, const float *x, void *block) {
  const float *map = dtype == NEAP_DYN8U ? dyn8u_map : dyn8s_map;
  struct dyn8s b = {.absmax = 0};
  float size[256];
  int32_t at[256];
  bool nan = false;
  for (int i = 0; i < 256; i++) {
    const float of = x[i] < 0 ? -x[i] : x[i];
    nan = nan || of != of;
    b.absmax = of > b.absmax ? of : b.absmax;
  }
  if (nan) memset(&b.absmax, 0xFF, sizeof b.absmax);
  const float most = b.absmax > 0 ? b.absmax : 1;
  for (int i = 0; i < 256; i++) {
    size[i] = x[i] / most;
    at[i] = 0;
  }
  for (int step = 128; step > 0; step /= 2)
    for (int i = 0; i < 256; i++) at[i] += map[at[i] + step] <= size[i] ? step : 0;
  for (int i = 0; i < 256; i++) {
    const int32_t next = at[i] < 255 ? at[i] + 1 : 255;
    const float low = size[i] - map[at[i]], high = map[next] - size[i];
    b.q[i] = (uint8_t)((high < 0 ? -high : high) < (low < 0 ? -low : low) ? next : at[i]);
  }
  memcpy(block, &b, sizeof b);
}

/* x = the numbers of `count` elements, whole blocks. `x` may be the memory at whose end the blocks lie. Of a
 * type that is not quantised, NaN. */
static inline void dequantise(neap_dtype dtype, int64_t count, const void *blocks, float *x) {
  const unsigned char *block = (const unsigned char *)blocks;
  switch (dtype) {
#define TO_FLOATS(NAME, name, length)                                                                        \
  case NEAP_##NAME:                                                                                          \
    for (int64_t i = 0; i < count; i += length, block += sizeof(struct name))                                \
      name##_to_floats(block, x + i);                                                                        \
    break;
    QUANTISED_TYPES(TO_FLOATS)
#undef TO_FLOATS
  CASES_NOT_QUANTISED:
    memset(x, 0xFF, (size_t)count * sizeof *x);
    break;
  }
}

/* Returns true if `quantise` makes blocks of that type. */
bool can_quantise(neap_dtype dtype);

/* Writes `count` numbers, whole rows of `row` elements, as a quantised type; `blocks` may be where x lies.
 * Rows are whole blocks; of types whose blocks have their own scales `row` may be any multiple of a block.
 * NEAP_UNSUPPORTED: blocks of the type are only read. NEAP_INVALID_ARGUMENT: the type cannot hold one, which
 * is infinite, NaN, or too large for its scales; `name` is for the message. Blocks before it are written
 * then. */
neap_status quantise(neap_dtype dtype, const char *name, int64_t row, int64_t count, const float *x,
                     void *blocks);

#endif
