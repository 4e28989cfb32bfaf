/* Blocks of triangular systems and of Cholesky factors. */
#include "kernel/cpu/isa/isa.h"

enum { COLUMNS = 64 }; /* that are solved at once, in the first-level cache */

static inline int64_t place(const struct triangular_block *t, int64_t r, int64_t c) {
  return r * t->row + c * t->column;
}

/* Solves for the columns in `x` [size, COLUMNS], of which the first sums are made in order. */
static void substitute(const struct triangular_block *t, const float *l, float x[][COLUMNS]) {
  for (int64_t r = 0; r < t->size; r++) {
    const int64_t i = t->transposed ? t->size - 1 - r : r;
    for (int64_t k = 0; k < r; k++) {
      const int64_t j = t->transposed ? t->size - 1 - k : k;
      const float factor = -(t->transposed ? l[j * t->l_row + i] : l[i * t->l_row + j]);
#pragma omp simd
      for (int c = 0; c < COLUMNS; c++) x[i][c] = multiply_add(factor, x[j][c], x[i][c]);
    }
    const float pivot = l[i * t->l_row + i];
#pragma omp simd
    for (int c = 0; c < COLUMNS; c++) x[i][c] /= pivot;
  }
}

static void take_columns(const struct triangular_block *t, int64_t first, int64_t count, const float *w,
                         const float *from, float x[][COLUMNS]) {
  for (int64_t r = 0; r < t->size; r++) {
    const float *row = from + place(t, r, first), *less = w != NULL ? w + r * t->columns + first : NULL;
    for (int64_t c = 0; c < count; c++) x[r][c] = row[c * t->column] - (less != NULL ? less[c] : 0);
    for (int64_t c = count; c < COLUMNS; c++) x[r][c] = 0;
  }
}

void ISA(triangular_block)(const struct triangular_block *t, const float *l, const float *w, float *x) {
#pragma omp parallel for if (t->size * t->size * t->columns >= 2 * PARALLEL_FROM)
  for (int64_t first = 0; first < t->columns; first += COLUMNS) {
    const int64_t count = least(COLUMNS, t->columns - first);
    float some[TRIANGULAR_BLOCK][COLUMNS];
    take_columns(t, first, count, w, x, some);
    substitute(t, l, some);
    for (int64_t r = 0; r < t->size; r++)
      for (int64_t c = 0; c < count; c++) x[place(t, r, first + c)] = some[r][c];
  }
}

/* Row by row of the transpose, so that sums of a row are vectors. */
void ISA(cholesky_block)(int64_t size, int64_t row, const float *w, float *l) {
  float turned[TRIANGULAR_BLOCK][TRIANGULAR_BLOCK] = {{0}};
  for (int64_t i = 0; i < size; i++)
    for (int64_t j = 0; j <= i; j++) turned[j][i] = l[i * row + j] - (w != NULL ? w[i * size + j] : 0);
  for (int64_t j = 0; j < size; j++) {
    for (int64_t k = 0; k < j; k++) {
      const float factor = -turned[k][j];
#pragma omp simd
      for (int64_t i = j; i < size; i++) turned[j][i] = multiply_add(factor, turned[k][i], turned[j][i]);
    }
    const float pivot = turned[j][j] > 0 ? __builtin_sqrtf(turned[j][j]) : __builtin_nanf("");
    turned[j][j] = pivot;
    for (int64_t i = j + 1; i < size; i++) turned[j][i] /= pivot;
  }
  for (int64_t i = 0; i < size; i++)
    for (int64_t j = 0; j <= i; j++) l[i * row + j] = turned[j][i];
}
