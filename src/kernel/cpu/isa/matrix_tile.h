/* The tile of a product of pairs of bf16 in registers of matrices (AMX): MATRIX_ROWS rows of MATRIX_COLUMNS
 * sums, in four registers of 16 rows and 16 sums each. An instruction adds 32 terms: the sum of the even ones
 * and the sum of the odd ones are added to one another, then to what is there. Groups of 32 terms are added
 * in order, and the last one is filled with zeros. So an element's bits follow from its terms alone. (Intel,
 * Instruction Set Extensions Programming Reference, TDPBF16PS.) */
#ifndef NEAP_KERNEL_CPU_ISA_MATRIX_TILE_H
#define NEAP_KERNEL_CPU_ISA_MATRIX_TILE_H

#include "kernel/cpu/isa/tile_product.h"

enum { MATRIX_ROWS = 32, MATRIX_COLUMNS = 32, MATRIX_UNITS = 16 };

#if defined(__AMX_BF16__)
enum { HAS_MATRICES = 1 };

/* Gives this thread its registers of matrices: all of 16 rows of 64 bytes. */
static inline void open_matrices(void) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } registers = {.palette = 1};
  for (int i = 0; i < 8; i++) registers.row_bytes[i] = 64, registers.rows[i] = 16;
  _tile_loadconfig(&registers);
}
/* Gives them back: a thread that has none is switched faster. */
static inline void close_matrices(void) { _tile_release(); }

/* Adds products to the four registers of sums, those that rows and columns need. */
INLINE void multiply_matrices(bool down, bool across, int64_t units, const float *a, const float *b) {
  const long a_step = units * (long)sizeof *a, b_step = MATRIX_COLUMNS * (long)sizeof *b;
  for (int64_t k = 0; k < units; k += MATRIX_UNITS) {
    _tile_loadd(4, a + k, a_step);
    _tile_loadd(6, b + k * MATRIX_COLUMNS, b_step);
    _tile_dpbf16ps(0, 4, 6);
    if (across) {
      _tile_loadd(7, b + k * MATRIX_COLUMNS + 16, b_step);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (!down) continue;
    _tile_loadd(5, a + 16 * units + k, a_step);
    _tile_dpbf16ps(2, 5, 6);
    if (across) _tile_dpbf16ps(3, 5, 7);
  }
}

INLINE void load_sums(const float *from, int64_t row) {
  const long step = row * (long)sizeof *from;
  _tile_loadd(0, from, step);
  _tile_loadd(1, from + 16, step);
  _tile_loadd(2, from + 16 * row, step);
  _tile_loadd(3, from + 16 * row + 16, step);
}
INLINE void store_sums(float *to, int64_t row) {
  const long step = row * (long)sizeof *to;
  _tile_stored(0, to, step);
  _tile_stored(1, to + 16, step);
  _tile_stored(2, to + 16 * row, step);
  _tile_stored(3, to + 16 * row + 16, step);
}

/* Computes a tile of `rows` and `columns`, at most MATRIX_ROWS and MATRIX_COLUMNS. a: rows of units; b: a
 * panel; both have zeros after their last lines. What was there before is the first term of each sum. */
INLINE void multiply_matrix_tile(int64_t rows, int64_t columns, int64_t units, const float *a, const float *b,
                                 struct result c) {
  float tile[MATRIX_ROWS * MATRIX_COLUMNS];
  const bool whole = rows == MATRIX_ROWS && columns == MATRIX_COLUMNS;
  const size_t row_bytes = (size_t)columns * sizeof *tile;
  if (c.before != NULL && !whole) {
    memset(tile, 0, sizeof tile);
    for (int64_t r = 0; r < rows; r++)
      memcpy(tile + r * MATRIX_COLUMNS, c.before + r * c.before_row, row_bytes);
  }
  __asm__ volatile("" ::: "memory"); /* compilers do not know what these registers read */
  if (c.before != NULL) {
    load_sums(whole ? c.before : tile, whole ? c.before_row : MATRIX_COLUMNS);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  if (rows > 16 && columns > 16)
    multiply_matrices(true, true, units, a, b);
  else if (rows > 16)
    multiply_matrices(true, false, units, a, b);
  else if (columns > 16)
    multiply_matrices(false, true, units, a, b);
  else
    multiply_matrices(false, false, units, a, b);
  if (whole && c.bias == NULL && c.addend == NULL) {
    store_sums(c.data, c.row);
    return;
  }
  store_sums(tile, MATRIX_COLUMNS);
  for (int64_t r = 0; r < rows; r++) {
    float *sums = tile + r * MATRIX_COLUMNS;
    for (int64_t n = 0; c.bias != NULL && n < columns; n++) sums[n] += c.bias[n];
    for (int64_t n = 0; c.addend != NULL && n < columns; n++) sums[n] = c.addend[r * c.row + n] + sums[n];
    memcpy(c.data + r * c.row, sums, row_bytes);
  }
}

enum { STRIP_ROWS = 16, STRIP_VECTORS = 4, STRIP_COLUMNS = 64 };

/* Copies up to 16 rows of 16 units of a left factor, of which `rows` and `units` exist; others are 0. */
INLINE void gather_left(int64_t rows, int64_t units, struct factor a, float to[STRIP_ROWS * MATRIX_UNITS]) {
  if (a.row == 1 && rows == STRIP_ROWS && units == MATRIX_UNITS) {
    const __m512i column =
        _mm512_mullo_epi32(_mm512_set1_epi32((int)a.column),
                           _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    UNROLL_TILE
    for (int r = 0; r < STRIP_ROWS; r++)
      _mm512_storeu_ps(to + r * MATRIX_UNITS, _mm512_i32gather_ps(column, a.data + r, 4));
    return;
  }
  memset(to, 0, STRIP_ROWS * MATRIX_UNITS * sizeof *to);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < units; k++) to[r * MATRIX_UNITS + k] = a.data[r * a.row + k * a.column];
}

/* Adds products of 16 rows of 16 units to `vectors` registers of sums. */
INLINE void multiply_strip(int vectors, const float *a, int64_t a_row, const float *b, int64_t b_row) {
  const long a_step = a_row * (long)sizeof *a, b_step = b_row * (long)sizeof *b;
  _tile_loadd(4, a, a_step);
  _tile_loadd(5, b, b_step);
  _tile_dpbf16ps(0, 4, 5);
  if (vectors < 2) return;
  _tile_loadd(6, b + 16, b_step);
  _tile_dpbf16ps(1, 4, 6);
  if (vectors < 3) return;
  _tile_loadd(7, b + 32, b_step);
  _tile_dpbf16ps(2, 4, 7);
  if (vectors < 4) return;
  _tile_loadd(5, b + 48, b_step);
  _tile_dpbf16ps(3, 4, 5);
}

/* Computes at most 16 rows of `vectors` vectors from factors as they lie. */
INLINE void multiply_matrix_strip(int64_t rows, int vectors, int64_t units, struct factor a,
                                  struct right_factor b, struct result c) {
  float sums[STRIP_ROWS * STRIP_COLUMNS], left[STRIP_ROWS * MATRIX_UNITS],
      right[MATRIX_UNITS * STRIP_COLUMNS];
  const bool whole = rows == STRIP_ROWS && (c.before == NULL || c.before == c.data);
  const size_t row_bytes = (size_t)vectors * 16 * sizeof *sums;
  float *at = whole ? c.data : sums;
  const int64_t row = whole ? c.row : STRIP_COLUMNS;
  const long step = row * (long)sizeof *at;
  for (int64_t r = 0; !whole && c.before != NULL && r < rows; r++)
    memcpy(sums + r * STRIP_COLUMNS, c.before + r * c.before_row, row_bytes);
  for (int64_t r = rows; r < STRIP_ROWS; r++) memset(sums + r * STRIP_COLUMNS, 0, row_bytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  __asm__ volatile("" ::: "memory");
  if (c.before != NULL) {
    _tile_loadd(0, at, step);
    if (vectors > 1) _tile_loadd(1, at + 16, step);
    if (vectors > 2) _tile_loadd(2, at + 32, step);
    if (vectors > 3) _tile_loadd(3, at + 48, step);
  }
  for (int64_t k = 0; k < units; k += MATRIX_UNITS) {
    const int64_t some = units - k < MATRIX_UNITS ? units - k : MATRIX_UNITS;
    const float *from_a = a.data + k * a.column, *from_b = b.data + k * b.row;
    int64_t a_row = a.row, b_row = b.row;
    if (a.column != 1 || rows < STRIP_ROWS || some < MATRIX_UNITS) {
      gather_left(rows, some, (struct factor){from_a, a.row, a.column}, left);
      from_a = left;
      a_row = MATRIX_UNITS;
    }
    if (some < MATRIX_UNITS) {
      for (int64_t i = 0; i < some; i++) memcpy(right + i * STRIP_COLUMNS, from_b + i * b.row, row_bytes);
      for (int64_t i = some; i < MATRIX_UNITS; i++) memset(right + i * STRIP_COLUMNS, 0, row_bytes);
      from_b = right;
      b_row = STRIP_COLUMNS;
    }
    __asm__ volatile("" ::: "memory");
    multiply_strip(vectors, from_a, a_row, from_b, b_row);
  }
  _tile_stored(0, at, step);
  if (vectors > 1) _tile_stored(1, at + 16, step);
  if (vectors > 2) _tile_stored(2, at + 32, step);
  if (vectors > 3) _tile_stored(3, at + 48, step);
  for (int64_t r = 0; !whole && r < rows; r++)
    memcpy(c.data + r * c.row, sums + r * STRIP_COLUMNS, row_bytes);
}

/* Multiplies matrices of units as they lie, without a bias and an addend. Columns are rounded up to whole
 * vectors, for which b and c must have room. */
static inline void multiply_matrix_rows(int64_t rows, int64_t columns, int64_t units, struct factor a,
                                        struct right_factor b, struct result c) {
  for (int64_t n = 0; n < columns; n += STRIP_COLUMNS)
    for (int64_t m = 0; m < rows; m += STRIP_ROWS) {
      const int64_t left = whole_vectors(columns - n) / FLOATS, some = rows - m;
      multiply_matrix_strip(some < STRIP_ROWS ? some : STRIP_ROWS,
                            left < STRIP_VECTORS ? (int)left : STRIP_VECTORS, units,
                            (struct factor){a.data + m * a.row, a.row, a.column},
                            (struct right_factor){b.data + n, b.row}, result_at(c, m, n));
    }
}
#else
enum { HAS_MATRICES = 0 };
static inline void open_matrices(void) {}
static inline void close_matrices(void) {}
INLINE void multiply_matrix_tile(int64_t rows, int64_t columns, int64_t units, const float *a, const float *b,
                                 struct result c) {
  (void)rows, (void)columns, (void)units, (void)a, (void)b, (void)c;
}
static inline void multiply_matrix_rows(int64_t rows, int64_t columns, int64_t units, struct factor a,
                                        struct right_factor b, struct result c) {
  (void)rows, (void)columns, (void)units, (void)a, (void)b, (void)c;
}
#endif

/* Returns the units of a packed line: those of its terms and, for registers of matrices, zeros after them. */
static inline int64_t panel_units(bool pairs, int64_t terms) {
  const int64_t units = units_of(pairs, terms);
  return HAS_MATRICES && pairs ? (units + MATRIX_UNITS - 1) / MATRIX_UNITS * MATRIX_UNITS : units;
}
/* Returns the rows of a tile. */
static inline int tile_rows(bool pairs) { return HAS_MATRICES && pairs ? MATRIX_ROWS : TILE_ROWS; }

#endif
