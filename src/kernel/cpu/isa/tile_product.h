/* Products of matrices that fit in the cache. Operands are in units of four bytes: floats or, if the
 * processor multiplies them (HAS_PAIRS), pairs of bf16, which are two terms of one sum. Sums are floats. */
#ifndef NEAP_KERNEL_CPU_ISA_TILE_PRODUCT_H
#define NEAP_KERNEL_CPU_ISA_TILE_PRODUCT_H

#include <string.h>

#include "kernel/cpu/isa/math.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>
enum { HAS_PAIRS = 1 };
#else
enum { HAS_PAIRS = 0 };
#endif

/* The register block of a result: TILE_ROWS rows of TILE_VECTORS vectors. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 4, TILE_VECTORS = 4, TILE_WIDTH = 16 };
#elif defined(__AVX2__)
enum { TILE_ROWS = 4, TILE_VECTORS = 2, TILE_WIDTH = 8 };
#else
enum { TILE_ROWS = 4, TILE_VECTORS = 2, TILE_WIDTH = 4 };
#endif
typedef float tile_vector __attribute__((vector_size(4 * TILE_WIDTH)));
typedef float tile_vector_in_memory __attribute__((vector_size(4 * TILE_WIDTH), aligned(4), may_alias));
INLINE tile_vector load_units(const float *p) { return *(const tile_vector_in_memory *)p; }
INLINE void store_units(float *p, tile_vector v) { *(tile_vector_in_memory *)p = v; }

static inline int64_t whole_tiles(int64_t rows) { return (rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS; }
static inline int64_t whole_vectors(int64_t columns) {
  return (columns + TILE_WIDTH - 1) / TILE_WIDTH * TILE_WIDTH;
}
/* Returns the units that hold this many terms. */
static inline int64_t units_of(bool pairs, int64_t terms) { return pairs ? (terms + 1) / 2 : terms; }

/* The left factor: unit (m, k) is data[m * row + k * column]. */
struct factor {
  const float *data;
  int64_t row, column;
};

/* The right factor: rows of units, `row` apart. */
struct right_factor {
  const float *data;
  int64_t row;
};

/* The result: rows of sums, `row` apart, which are added to if `add`. */
struct result {
  float *data;
  int64_t row;
  bool add;
};

INLINE tile_vector multiply_add_units(bool pairs, const float *a, tile_vector b, tile_vector sum) {
#if defined(__AVX512BF16__)
  if (pairs) {
    int32_t pair;
    memcpy(&pair, a, sizeof pair);
    return (tile_vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)b);
  }
#endif
  (void)pairs;
  return sum + *a * b;
}

INLINE void multiply_tile(bool pairs, int vectors, int64_t depth, struct factor a, struct right_factor b,
                          struct result c) {
  tile_vector sum[TILE_ROWS][TILE_VECTORS];
  for (int r = 0; r < TILE_ROWS; r++)
    for (int v = 0; v < vectors; v++)
      sum[r][v] = c.add ? load_units(c.data + r * c.row + v * TILE_WIDTH) : (tile_vector){0};
  for (int64_t k = 0; k < depth; k++) {
    tile_vector right[TILE_VECTORS];
    for (int v = 0; v < vectors; v++) right[v] = load_units(b.data + k * b.row + v * TILE_WIDTH);
    for (int r = 0; r < TILE_ROWS; r++)
      for (int v = 0; v < vectors; v++)
        sum[r][v] = multiply_add_units(pairs, a.data + r * a.row + k * a.column, right[v], sum[r][v]);
  }
  for (int r = 0; r < TILE_ROWS; r++)
    for (int v = 0; v < vectors; v++) store_units(c.data + r * c.row + v * TILE_WIDTH, sum[r][v]);
}

/* Computes `vectors` vectors of columns, from column n on. */
INLINE void multiply_columns(bool pairs, int vectors, int64_t rows, int64_t n, int64_t depth, struct factor a,
                             struct right_factor b, struct result c) {
  b.data += n;
  for (int64_t m = 0; m < rows; m += TILE_ROWS)
    multiply_tile(pairs, vectors, depth, (struct factor){a.data + m * a.row, a.row, a.column}, b,
                  (struct result){c.data + m * c.row + n, c.row, c.add});
}

INLINE void multiply_units(bool pairs, int64_t rows, int64_t columns, int64_t depth, struct factor a,
                           struct right_factor b, struct result c) {
  const int64_t step = TILE_VECTORS * TILE_WIDTH;
  int64_t n = 0;
  for (; n + step <= whole_vectors(columns); n += step)
    multiply_columns(pairs, TILE_VECTORS, rows, n, depth, a, b, c);
  const int64_t rest = (whole_vectors(columns) - n) / TILE_WIDTH;
  if (rest == 1) multiply_columns(pairs, 1, rows, n, depth, a, b, c);
#if defined(__AVX512F__)
  if (rest == 2) multiply_columns(pairs, 2, rows, n, depth, a, b, c);
  if (rest == 3) multiply_columns(pairs, 3, rows, n, depth, a, b, c);
#endif
}

static void multiply_floats(int64_t rows, int64_t columns, int64_t depth, struct factor a,
                            struct right_factor b, struct result c) {
  multiply_units(false, rows, columns, depth, a, b, c);
}
static void multiply_pairs(int64_t rows, int64_t columns, int64_t depth, struct factor a,
                           struct right_factor b, struct result c) {
  multiply_units(true, rows, columns, depth, a, b, c);
}

/* c [rows, columns] = a b, or c += a b; each sum has `depth` terms. a and b are in units, pairs only if
 * HAS_PAIRS. Rows are rounded up to whole tiles, columns to whole vectors, and an odd depth to whole pairs;
 * all three matrices must have room for these. */
static inline void multiply(bool pairs, int64_t rows, int64_t columns, int64_t depth, struct factor a,
                            struct right_factor b, struct result c) {
  if (HAS_PAIRS && pairs)
    multiply_pairs(rows, columns, units_of(true, depth), a, b, c);
  else
    multiply_floats(rows, columns, depth, a, b, c);
}

#endif
