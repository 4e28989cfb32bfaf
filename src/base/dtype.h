/* The table of types of elements. */
#ifndef NEAP_BASE_DTYPE_H
#define NEAP_BASE_DTYPE_H

#include <stdint.h>

#include "neap.h"

enum { INDEX_BLOCK = 1 << 16 }; /* elements that a u16 tells apart, for which NEAP_BLOCK has an i32 */

struct dtype_row {
  const char *name;
  int32_t block_elements,
      block_bytes;         /* a block is the least that is stored: 8 bits in a byte, else mostly one */
  const char *safetensors; /* its name there; NULL: not kept in files */
  bool real;               /* what gradients can have */
};

extern const struct dtype_row dtype_rows[];
extern const int32_t dtype_count;

/* Bytes that so many elements take, without padding. At most 2^44 elements. */
static inline uint64_t dtype_bytes(neap_dtype dtype, uint64_t elements) {
  const uint64_t block = (uint64_t)dtype_rows[dtype].block_elements;
  return (elements + block - 1) / block * (uint64_t)dtype_rows[dtype].block_bytes;
}

/* Returns element `i` of an array of real numbers of that type; writes it, to the nearest. Of a type that has
 * no real numbers NaN is returned, and nothing is written. */
double dtype_real(neap_dtype dtype, const void *data, int64_t i);
void dtype_set_real(neap_dtype dtype, void *data, int64_t i, double value);

#endif
