/* The tile of a product of matrices, which stays in registers. Factors are in units of four bytes: floats or,
 * if the processor multiplies them (HAS_PAIRS), pairs of bf16, which are two terms of one sum. Sums are
 * floats. Vectors run along the result: each element is a chain of multiply-adds in the order of its terms,
 * whatever the tile, so that its bits depend on the terms alone. */
#ifndef NEAP_KERNEL_CPU_ISA_TILE_PRODUCT_H
#define NEAP_KERNEL_CPU_ISA_TILE_PRODUCT_H

#include "kernel/cpu/isa/floats.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>
enum { HAS_PAIRS = 1 };
#else
enum { HAS_PAIRS = 0 };
#endif

/* TILE_ROWS rows of TILE_VECTORS vectors: with the right factor and one element of the left one they fill the
 * registers. GCC keeps them there if all loops over them are unrolled. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 12, TILE_VECTORS = 2 };
#elif defined(__aarch64__)
enum { TILE_ROWS = 6, TILE_VECTORS = 4 };
#else
enum { TILE_ROWS = 6, TILE_VECTORS = 2 };
#endif
enum { TILE_COLUMNS = TILE_VECTORS * FLOATS };
#if defined(__clang__)
#define UNROLL_TILE _Pragma("unroll")
#else
#define UNROLL_TILE _Pragma("GCC unroll 12")
#endif

static inline int64_t whole_vectors(int64_t columns) { return (columns + FLOATS - 1) / FLOATS * FLOATS; }
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

/* The result, in rows `row` apart: the sums, added to those `before`, plus the bias, added to the addend.
 * What is NULL is left out; what is not may be `data`. */
struct result {
  float *data;
  int64_t row;
  const float *before; /* its rows are `before_row` apart */
  int64_t before_row;
  const float *bias, *addend; /* bias: one row; the addend lies as the result does */
};

/* Returns the part of a result from a row and a column on. */
static inline struct result result_at(struct result c, int64_t row, int64_t column) {
  const int64_t at = row * c.row + column;
  c.data += at;
  if (c.before != NULL) c.before += row * c.before_row + column;
  if (c.bias != NULL) c.bias += column;
  if (c.addend != NULL) c.addend += at;
  return c;
}

/* Elements that are packed next: runs of bytes, `step` apart. They are asked for while tiles are computed, so
 * that they are in the cache when they are packed. Packing alone would wait for memory at each run, which are
 * short. */
struct ahead {
  const unsigned char *data;
  int64_t step, runs, bytes;
  int64_t run, at;  /* the lines to prefetch next */
  int64_t per_tile; /* lines of the cache */
};

enum { LINE_BYTES = 64, UNITS_AT_ONCE = 8 /* between which lines are asked for */ };

INLINE void fetch_lines(struct ahead *a, int64_t lines) {
  for (; lines > 0 && a->run < a->runs; lines--) {
    __builtin_prefetch(a->data + a->run * a->step + a->at, 0, 2);
    a->at += LINE_BYTES;
    if (a->at >= a->bytes) a->at = 0, a->run++;
  }
}

/* Asks for the share of lines that falls to some of `depth` units. NULL: for none. */
INLINE void fetch_share(struct ahead *a, int64_t depth) {
  if (a != NULL) fetch_lines(a, (a->per_tile * UNITS_AT_ONCE + depth - 1) / depth);
}

INLINE floats multiply_add_units(bool pairs, float a, floats b, floats sum) {
#if defined(__AVX512BF16__)
  if (pairs) return (floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(a), (__m512bh)b);
#endif
  (void)pairs;
  return multiply_add_vector(a - (floats){0}, b, sum);
}

/* Computes rows (at most TILE_ROWS) of `vectors` vectors; asks for what is packed next meanwhile. */
INLINE void multiply_tile(bool pairs, int rows, int vectors, int64_t depth, struct factor a,
                          struct right_factor b, struct result c, struct ahead *next_a,
                          struct ahead *next_b) {
  floats sum[TILE_ROWS][TILE_VECTORS];
  UNROLL_TILE
  for (int r = 0; r < rows; r++) {
    UNROLL_TILE
    for (int v = 0; v < vectors; v++) sum[r][v] = (floats){0};
    __builtin_prefetch(c.data + r * c.row, 1);
    __builtin_prefetch(c.data + r * c.row + vectors * FLOATS - 1, 1);
  }
  for (int64_t k = 0; k < depth; k++) {
    if (k % UNITS_AT_ONCE == 0) {
      fetch_share(next_a, depth);
      fetch_share(next_b, depth);
    }
    floats right[TILE_VECTORS];
    UNROLL_TILE
    for (int v = 0; v < vectors; v++) right[v] = load(b.data + k * b.row + v * FLOATS);
    UNROLL_TILE
    for (int r = 0; r < rows; r++) {
      const float left = a.data[r * a.row + k * a.column];
      UNROLL_TILE
      for (int v = 0; v < vectors; v++) sum[r][v] = multiply_add_units(pairs, left, right[v], sum[r][v]);
    }
  }
  UNROLL_TILE
  for (int r = 0; r < rows; r++) {
    UNROLL_TILE
    for (int v = 0; v < vectors; v++) {
      const int64_t at = r * c.row + v * FLOATS;
      if (c.before != NULL) sum[r][v] = load(c.before + r * c.before_row + v * FLOATS) + sum[r][v];
      if (c.bias != NULL) sum[r][v] += load(c.bias + v * FLOATS);
      if (c.addend != NULL) sum[r][v] = load(c.addend + at) + sum[r][v];
      store(c.data + at, sum[r][v]);
    }
  }
}

/* Computes up to TILE_ROWS rows: each number of rows has code of its own. */
INLINE void multiply_rows(bool pairs, int64_t rows, int vectors, int64_t depth, struct factor a,
                          struct right_factor b, struct result c, struct ahead *next_a,
                          struct ahead *next_b) {
#define ROWS(n)                                                                                              \
  case n:                                                                                                    \
    multiply_tile(pairs, n <= TILE_ROWS ? n : TILE_ROWS, vectors, depth, a, b, c, next_a, next_b);           \
    break;
  switch (rows) {
    ROWS(1)
    ROWS(2)
    ROWS(3)
    ROWS(4)
    ROWS(5)
    ROWS(6)
#if defined(__AVX512F__)
    ROWS(7)
    ROWS(8)
    ROWS(9)
    ROWS(10)
    ROWS(11)
    ROWS(12)
#endif
  }
#undef ROWS
}

/* Computes `columns` columns, at most TILE_COLUMNS, rounded up to whole vectors. */
INLINE void multiply_panel(bool pairs, int64_t rows, int64_t columns, int64_t depth, struct factor a,
                           struct right_factor b, struct result c, struct ahead *next_a,
                           struct ahead *next_b) {
  const int64_t vectors = whole_vectors(columns) / FLOATS;
  if (vectors == TILE_VECTORS) multiply_rows(pairs, rows, TILE_VECTORS, depth, a, b, c, next_a, next_b);
#if defined(__aarch64__)
  else if (vectors == 3)
    multiply_rows(pairs, rows, 3, depth, a, b, c, next_a, next_b);
  else if (vectors == 2)
    multiply_rows(pairs, rows, 2, depth, a, b, c, next_a, next_b);
#endif
  else
    multiply_rows(pairs, rows, 1, depth, a, b, c, next_a, next_b);
}

#endif
