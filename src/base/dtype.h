/* The table of types of elements. */
#ifndef NEAP_BASE_DTYPE_H
#define NEAP_BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "neap.h"

enum { INDEX_BLOCK = 1 << 16 }; /* elements that a u16 tells apart, for which NEAP_BLOCK has an i32 */

enum dtype_kind {
  DTYPE_REAL,     /* numbers, which may have gradients */
  DTYPE_INTEGER,  /* whole numbers: ids, lengths, bytes of pictures */
  DTYPE_INDEX,    /* where other elements are */
  DTYPE_QUANTISED /* real numbers in blocks that share a scale: read through Dequantise (base/quantised.h) */
};

/* Types by kind, as cases of a switch. A switch over types has no default: it has cases of its own for the
 * types that it works on, and these for the rest, so that the compiler names each switch that a new type
 * misses. */
#define CASES_NOT_REAL                                                                                       \
  CASES_WHOLE:                                                                                               \
  CASES_QUANTISED
#define CASES_NOT_QUANTISED                                                                                  \
  CASES_WHOLE:                                                                                               \
  case NEAP_F32:                                                                                             \
  case NEAP_F64:                                                                                             \
  case NEAP_BF16:                                                                                            \
  case NEAP_F16
#define CASES_WHOLE                                                                                          \
  case NEAP_I32:                                                                                             \
  case NEAP_U8:                                                                                              \
  case NEAP_BIT:                                                                                             \
  case NEAP_U16:                                                                                             \
  case NEAP_BLOCK
#define CASES_QUANTISED                                                                                      \
  case NEAP_Q8_0:                                                                                            \
  case NEAP_Q4_0:                                                                                            \
  case NEAP_Q4_1:                                                                                            \
  case NEAP_Q5_0:                                                                                            \
  case NEAP_Q5_1:                                                                                            \
  case NEAP_Q4_K:                                                                                            \
  case NEAP_Q5_K:                                                                                            \
  case NEAP_Q6_K:                                                                                            \
  case NEAP_NF4:                                                                                             \
  case NEAP_I8:                                                                                              \
  case NEAP_DYN8S:                                                                                           \
  case NEAP_DYN8U:                                                                                           \
  case NEAP_C8:                                                                                              \
  case NEAP_C4

struct dtype_row {
  const char *name;
  enum dtype_kind kind;
  int32_t block_elements,
      block_bytes;         /* a block is the least that is stored: 8 bits in a byte, else mostly one */
  const char *safetensors; /* its name there (formats/safetensors.h); NULL: not kept in files */
};

extern const struct dtype_row dtype_rows[];
extern const int32_t dtype_count;

/* A set of types: bit i means type i. */
typedef uint32_t type_set;
#define TYPE_SET(name) (1u << NEAP_##name)
enum {
  TYPE_F32 = TYPE_SET(F32),
  TYPE_I32 = TYPE_SET(I32),
  TYPE_U8 = TYPE_SET(U8),
  TYPE_BIT = TYPE_SET(BIT),
  TYPE_BF16 = TYPE_SET(BF16),
  TYPE_U16 = TYPE_SET(U16),
  TYPES_QUANTISED = TYPE_SET(Q8_0) | TYPE_SET(Q4_0) | TYPE_SET(Q4_1) | TYPE_SET(Q5_0) | TYPE_SET(Q5_1) |
                    TYPE_SET(Q4_K) | TYPE_SET(Q5_K) | TYPE_SET(Q6_K) | TYPE_SET(NF4) | TYPE_SET(I8) |
                    TYPE_SET(DYN8S) | TYPE_SET(DYN8U) | TYPE_SET(C8) | TYPE_SET(C4),
  TYPES_DYNAMIC = TYPE_SET(DYN8S) | TYPE_SET(DYN8U),
  TYPES_COMPRESSED = TYPE_SET(C8) | TYPE_SET(C4),
  TYPES_ANY = (1u << 31) - 1,
  TYPES_POSITIONS = TYPE_SET(BIT) | TYPE_SET(BLOCK),
  TYPES_HALF = TYPE_SET(BF16) | TYPE_SET(F16),
  TYPES_FLOAT = TYPE_F32 | TYPES_HALF /* that graphs are made in; the reference backend widens them to f64 */
};

/* Returns true if a number, which may come from outside, is a type. */
static inline bool dtype_is_known(int64_t dtype) { return dtype >= 0 && dtype < dtype_count; }

static inline bool type_set_has(type_set set, neap_dtype dtype) { return set >> dtype & 1; }

static inline bool dtype_is_real(neap_dtype dtype) { return dtype_rows[dtype].kind == DTYPE_REAL; }
static inline bool dtype_is_quantised(neap_dtype dtype) { return dtype_rows[dtype].kind == DTYPE_QUANTISED; }

/* Bytes that this many elements take, without padding. At most 2^44 elements. */
static inline uint64_t dtype_bytes(neap_dtype dtype, uint64_t elements) {
  const uint64_t block = (uint64_t)dtype_rows[dtype].block_elements;
  return (elements + block - 1) / block * (uint64_t)dtype_rows[dtype].block_bytes;
}

/* Returns element `i` of an array of real numbers of that type; writes it, to the nearest. Of a type that has
 * no real numbers NaN is returned, and nothing is written. */
double dtype_real(neap_dtype dtype, const void *data, int64_t i);
void dtype_set_real(neap_dtype dtype, void *data, int64_t i, double value);

#endif
