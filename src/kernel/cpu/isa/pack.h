/* Packing of a product's factors. The lines of a factor are the rows of a or the columns of b; its terms are
 * those of the sums. A panel has some lines, side by side: unit k of its line i is at k * width + i. The left
 * factor of tiles in registers of matrices (HAS_MATRICES) has rows in place of panels: unit k of line i is at
 * i * panel_units + k. Matrices may have any layout and storage; what is not the units that are wanted is
 * converted row by row on the stack. */
#ifndef NEAP_KERNEL_CPU_ISA_PACK_H
#define NEAP_KERNEL_CPU_ISA_PACK_H

#include "base/quantised.h"
#include "kernel/cpu/isa/matrix_tile.h"
#include "kernel/cpu/isa/noise.h"
#include "kernel/cpu/isa/tile_product.h"

/* The terms of a sum that are added to one another before they are added to those before: the cut of all
 * sums. A multiple of every block of a quantised type. */
enum { PRODUCT_CUT = 256 };

/* The most lines that are packed at once from rows of terms. */
enum { LINES_AT_ONCE = 256 };

/* A factor: a matrix whose rows lie along the terms, or, if `across`, along the lines. */
struct lines {
  struct product_matrix matrix;
  const void *data;
  bool across;
  const struct noise *noise; /* NULL: none */
};

/* `lines_first`: the matrix is given as [lines, terms], else as [terms, lines]. */
static inline struct lines lines_of(const struct product_matrix *matrix, const void *data, bool lines_first) {
  struct lines l = {.matrix = *matrix, .data = data, .across = !lines_first};
  if (matrix->kind != PRODUCT_PLAIN || matrix->row != 1 || matrix->column == 1) return l;
  l.matrix.row = matrix->column; /* rows of what is stored */
  l.matrix.column = 1;
  l.across = lines_first;
  return l;
}

/* ---- Rows of matrices ---- */

/* Returns the first element of a row of any matrix, or of the only pixel of a window. */
static inline int64_t row_start(const struct product_matrix *m, int64_t row) {
  switch (m->kind) {
  case PRODUCT_PLAIN:
    return row * m->row;
  case PRODUCT_KERNELS:
    return m->taps[row / m->channels].kernel + row % m->channels * m->row;
  case PRODUCT_WINDOWS:
    break;
  }
  const int64_t x = row % m->grid_width * m->step + m->taps->x, line = row / m->grid_width,
                y = line % m->grid_height * m->step + m->taps->y, image = line / m->grid_height;
  return ((image * m->height + y) * m->width + x) * m->pixel;
}

/* Converts columns [first, first + count) of one row of windows to floats. */
static inline void read_window(const struct product_matrix *m, const void *data, int64_t row, int64_t first,
                               int64_t count, float *to) {
  const int64_t line = row / m->grid_width, left = row % m->grid_width * m->step,
                top = line % m->grid_height * m->step, image = line / m->grid_height;
  while (count > 0) {
    const struct product_tap *tap = &m->taps[first / m->channels];
    const int64_t channel = first % m->channels, size = least(m->channels - channel, count), y = top + tap->y,
                  x = left + tap->x;
    if (y >= 0 && y < m->height && x >= 0 && x < m->width) {
      const int64_t at = ((image * m->height + y) * m->width + x) * m->pixel + channel;
      widen_run(m->storage, size, element_at(data, m->storage, at), to);
    } else {
      memset(to, 0, (size_t)size * sizeof *to);
    }
    to += size;
    first += size;
    count -= size;
  }
}

/* Converts columns [first, first + count) of a row to floats; of a quantised type, whole blocks. */
static inline void read_floats(const struct lines *l, int64_t row, int64_t first, int64_t count, float *to) {
  const struct product_matrix *m = &l->matrix;
  if (m->kind == PRODUCT_WINDOWS) {
    read_window(m, l->data, row, first, count, to);
    return;
  }
  const int64_t at = row_start(m, row) + first * m->column;
  if (dtype_is_quantised(m->storage)) {
    dequantise(m->storage, count, (const unsigned char *)l->data + dtype_bytes(m->storage, (uint64_t)at), to);
  } else if (m->column == 1) {
    widen_run(m->storage, count, element_at(l->data, m->storage, at), to);
  } else {
    for (int64_t i = 0; i < count; i++)
      widen_run(m->storage, 1, element_at(l->data, m->storage, at + i * m->column), to + i);
  }
  if (l->noise != NULL) add_noise(l->noise, at, count, to, to);
}

/* Returns columns [first, first + count) of a row as the elements of units: where they lie, or converted in
 * `stage`, [count] floats. */
INLINE const void *read_row(bool pairs, const struct lines *l, int64_t row, int64_t first, int64_t count,
                            float *stage) {
  const struct product_matrix *m = &l->matrix;
  if (l->noise == NULL && m->kind != PRODUCT_WINDOWS && m->column == 1 &&
      m->storage == (pairs ? NEAP_BF16 : NEAP_F32))
    return element_at(l->data, m->storage, row_start(m, row) + first);
  read_floats(l, row, first, count, stage);
  for (int64_t i = 0; pairs && i < count; i += 64) {
    uint16_t some[64];
    narrow_run(NEAP_BF16, least(64, count - i), stage + i, some);
    memcpy((uint16_t *)(void *)stage + i, some, (size_t)least(64, count - i) * sizeof *some);
  }
  return stage;
}

/* ---- Panels of lines that lie along the terms ---- */

/* Writes `count` units of up to 8 lines (of which `lines` are written) to columns of a panel. */
INLINE void transpose_units(int lines, int width, int64_t count, const float *const from[8], float *to) {
  int64_t k = 0;
#if defined(__AVX2__)
  for (; k + 8 <= count; k += 8) {
    __m256 r[8], t[8];
    UNROLL_TILE
    for (int i = 0; i < 8; i++) r[i] = i < lines ? _mm256_loadu_ps(from[i] + k) : _mm256_setzero_ps();
    UNROLL_TILE
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL_TILE
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
      r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
    UNROLL_TILE
    for (int i = 0; i < 4; i++) {
      t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
      t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    UNROLL_TILE
    for (int i = 0; i < 8; i++) {
      float *here = to + (k + i) * width;
      if (lines == 8)
        _mm256_storeu_ps(here, t[i]);
      else
        _mm_storeu_ps(here, _mm256_castps256_ps128(t[i]));
      if (lines == 6) _mm_storel_pi((__m64 *)(void *)(here + 4), _mm256_extractf128_ps(t[i], 1));
    }
  }
#endif
  for (; k < count; k++)
    for (int i = 0; i < lines; i++) to[k * width + i] = from[i][k];
}

/* Returns a line of `terms` terms as units: where it lies, or in `here`, [PRODUCT_CUT]. */
INLINE const void *read_line(bool pairs, const struct lines *l, int64_t line, int64_t term, int64_t terms,
                             float *here) {
  const void *row = read_row(pairs, l, line, term, terms, here);
  if (!pairs || terms % 2 == 0) return row;
  memmove(here, row, (size_t)terms * sizeof(uint16_t)); /* the half after the last term is 0 */
  ((uint16_t *)(void *)here)[terms] = 0;
  return here;
}

/* Packs one panel: lines [first, first + lines), and zeros after them. `stage`: [8][PRODUCT_CUT]. */
INLINE void pack_along(bool pairs, int width, const struct lines *l, int64_t first, int64_t lines,
                       int64_t term, int64_t terms, float *to, float *stage) {
  static const float zeros[PRODUCT_CUT];
  const int64_t units = units_of(pairs, terms);
  for (int i = 0; i < width; i += 8) {
    const float *from[8];
    const int some = width - i < 8 ? width - i : 8;
    for (int n = 0; n < some; n++) {
      float *here = stage + n * PRODUCT_CUT;
      from[n] = i + n < lines ? read_line(pairs, l, first + i + n, term, terms, here) : zeros;
    }
    if (some == 8)
      transpose_units(8, width, units, from, to + i);
    else if (some == 6)
      transpose_units(6, width, units, from, to + i);
    else
      transpose_units(4, width, units, from, to + i);
  }
}

/* ---- Panels of lines that lie across the terms ---- */

enum { TERMS_AT_ONCE = 8 };

/* Gives unit `k` of the lines that begin at `even` and `odd`, rows of bf16; odd NULL: zeros. */
static inline void pair_rows(int64_t count, const uint16_t *even, const uint16_t *odd, uint32_t *to) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) to[i] = even[i] | (odd != NULL ? (uint32_t)odd[i] << 16 : 0);
}

/* Returns unit `k` of lines [first, first + lines), at most LINES_AT_ONCE: where it lies, or in `here`,
 * [LINES_AT_ONCE]. `more`: [2][LINES_AT_ONCE]. */
INLINE const float *read_unit(bool pairs, const struct lines *l, int64_t first, int64_t lines, int64_t term,
                              int64_t terms, int64_t k, float *here, float *more) {
  if (!pairs) return read_row(false, l, term + k, first, lines, here);
  const int64_t even = 2 * k;
  const void *one = read_row(true, l, term + even, first, lines, more),
             *other = even + 1 < terms
                          ? read_row(true, l, term + even + 1, first, lines, more + LINES_AT_ONCE)
                          : NULL;
  pair_rows(lines, one, other, (uint32_t *)(void *)here);
  return here;
}

/* Packs panels of lines [first, first + lines), at most LINES_AT_ONCE, and zeros after them. `stage`:
 * [TERMS_AT_ONCE][LINES_AT_ONCE]; `more`: [2][LINES_AT_ONCE]. */
INLINE void pack_across(bool pairs, int width, const struct lines *l, int64_t first, int64_t lines,
                        int64_t term, int64_t terms, float *to, float *stage, float *more) {
  const int64_t count = units_of(pairs, terms), units = panel_units(pairs, terms);
  for (int64_t k = 0; k < count; k += TERMS_AT_ONCE) {
    const float *from[TERMS_AT_ONCE];
    const int64_t some = least(TERMS_AT_ONCE, count - k);
    for (int64_t n = 0; n < some; n++)
      from[n] = read_unit(pairs, l, first, lines, term, terms, k + n, stage + n * LINES_AT_ONCE, more);
    int64_t i = 0;
    for (; i + width <= lines; i += width)
      for (int64_t n = 0; n < some; n++)
        memcpy(to + i * units + (k + n) * width, from[n] + i, (size_t)width * sizeof *to);
    if (i == lines) continue;
    for (int64_t n = 0; n < some; n++) {
      float *here = to + i * units + (k + n) * width;
      memcpy(here, from[n] + i, (size_t)(lines - i) * sizeof *to);
      memset(here + lines - i, 0, (size_t)(width - lines + i) * sizeof *to);
    }
  }
}

/* Packs panels of lines that lie in rows of units, panel by panel. */
INLINE void pack_rows(int width, int64_t lines, int64_t terms, const float *from, int64_t row, float *to) {
  for (; lines >= width; lines -= width, from += width, to += width * terms)
    for (int64_t k = 0; k < terms; k++) memcpy(to + k * width, from + k * row, (size_t)width * sizeof *to);
  for (int64_t k = 0; lines > 0 && k < terms; k++) {
    memcpy(to + k * width, from + k * row, (size_t)lines * sizeof *to);
    memset(to + k * width + lines, 0, (size_t)(width - lines) * sizeof *to);
  }
}

/* Packs lines [first, first + lines) in panels of `width`, one after the other, zeros after the last line.
 * `first` is a multiple of a quantised matrix' blocks if its rows lie across the terms, and so is `lines` but
 * at the end. */
INLINE void pack_panels(bool pairs, int width, const struct lines *l, int64_t first, int64_t lines,
                        int64_t term, int64_t terms, float *to) {
  const int64_t count = units_of(pairs, terms), units = panel_units(pairs, terms), panel = width * units;
  for (int64_t i = 0; units > count && i < lines; i += width) /* terms that a tile has more */
    memset(to + i * units + count * width, 0, (size_t)((units - count) * width) * sizeof *to);
  const bool lies = l->matrix.kind == PRODUCT_PLAIN && l->matrix.column == 1 &&
                    l->matrix.storage == NEAP_F32 && l->noise == NULL;
  if (l->across && !pairs && lies) {
    const int64_t row = l->matrix.row;
    pack_rows(width, lines, terms, (const float *)l->data + term * row + first, row, to);
    return;
  }
  if (l->across) {
    float stage[TERMS_AT_ONCE * LINES_AT_ONCE], more[2 * LINES_AT_ONCE];
    const int64_t step = LINES_AT_ONCE / width * width;
    for (int64_t i = 0; i < lines; i += step)
      pack_across(pairs, width, l, first + i, least(step, lines - i), term, terms, to + i / width * panel,
                  stage, more);
    return;
  }
  float stage[8 * PRODUCT_CUT];
  for (int64_t i = 0; i < lines; i += width)
    pack_along(pairs, width, l, first + i, least(width, lines - i), term, terms, to + i / width * panel,
               stage);
}

/* ---- Rows ---- */

/* Packs lines [first, first + lines) as rows of pairs, and rows of zeros up to a multiple of `height`. */
INLINE void pack_matrix_rows(int height, const struct lines *l, int64_t first, int64_t lines, int64_t term,
                             int64_t terms, float *to) {
  static const float zeros[LINES_AT_ONCE];
  const int64_t count = units_of(true, terms), units = panel_units(true, terms),
                rows = (lines + height - 1) / height * height;
  float stage[TERMS_AT_ONCE * LINES_AT_ONCE], more[2 * LINES_AT_ONCE];
  for (int64_t i = 0; !l->across && i < lines; i++) {
    memcpy(to + i * units, read_line(true, l, first + i, term, terms, stage), (size_t)count * sizeof *to);
    memset(to + i * units + count, 0, (size_t)(units - count) * sizeof *to);
  }
  for (int64_t i = 0; l->across && i < lines; i += LINES_AT_ONCE)
    for (int64_t k = 0; k < units; k += TERMS_AT_ONCE) {
      const float *from[TERMS_AT_ONCE];
      const int64_t some = least(LINES_AT_ONCE, lines - i);
      for (int64_t n = 0; n < TERMS_AT_ONCE; n++)
        from[n] = k + n < count ? read_unit(true, l, first + i, some, term, terms, k + n,
                                            stage + n * LINES_AT_ONCE, more)
                                : zeros;
      transpose_units(TERMS_AT_ONCE, (int)units, some, from, to + i * units + k);
    }
  memset(to + lines * units, 0, (size_t)((rows - lines) * units) * sizeof *to);
}

#endif
