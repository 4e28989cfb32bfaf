/* Quantised types: blocks of numbers that share a scale. A type is a case in each of the two functions. */
#ifndef NEAP_BASE_QUANTISED_H
#define NEAP_BASE_QUANTISED_H

#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "base/status.h"

/* A block of q8_0, byte for byte as ggml and GGUF have it (block_q8_0): number i is scale * q[i]. */
enum { Q8_0_ELEMENTS = 32 };
struct q8_0 {
  uint16_t scale; /* f16 */
  int8_t q[Q8_0_ELEMENTS];
};

/* A product is exact: a scale has 11 bits, q 8. The sum with 0 takes the sign off a 0, which would not be
 * there after the next rounding. */
static inline void q8_0_to_floats(const void *block, float *x) {
  struct q8_0 b;
  memcpy(&b, block, sizeof b);
  const float scale = f16_to_float(b.scale);
  for (int i = 0; i < Q8_0_ELEMENTS; i++) x[i] = scale * (float)b.q[i] + 0.0f;
}

/* x = the numbers of `count` elements, whole blocks. `x` may be the memory at whose end the blocks lie. Of a
 * type that is not quantised, NaN. */
static inline void dequantise(neap_dtype dtype, int64_t count, const void *blocks, float *x) {
  const unsigned char *block = (const unsigned char *)blocks;
  switch (dtype) {
  case NEAP_Q8_0:
    for (int64_t i = 0; i < count; i += Q8_0_ELEMENTS, block += sizeof(struct q8_0))
      q8_0_to_floats(block, x + i);
    break;
  CASES_NOT_QUANTISED:
    memset(x, 0xFF, (size_t)count * sizeof *x);
    break;
  }
}

/* Writes `count` numbers, whole blocks, as a quantised type; `blocks` may be where x lies.
 * NEAP_INVALID_ARGUMENT: the type cannot hold one, which is infinite, NaN, or larger than its largest scale
 * allows; `name` is for the message. Blocks before it are written then. */
neap_status quantise(neap_dtype dtype, const char *name, int64_t count, const float *x, void *blocks);

#endif
