/* Products of small matrices, one for each point of Winograd's convolution. */
#include "kernel/cpu/isa/floats.h"

/* The register block of a result: TILE_ROWS rows of two vectors. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 8 };
#else
enum { TILE_ROWS = 6 };
#endif

/* One point's operands, from the first row and column of a tile on. */
struct factors {
  int64_t depth, a_row, a_depth, b_row, c_row;
  const float *a, *b;
  float *c;
  bool add;
};

/* Adds the previous c at the end: a separate sum for each depth is more accurate than one sum. */
INLINE void product_tile(int rows, int vectors, const struct factors *f) {
  floats sum[TILE_ROWS][2];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) sum[r][v] = (floats){0};
  for (int64_t d = 0; d < f->depth; d++) {
    floats right[2];
    for (int v = 0; v < vectors; v++) right[v] = load(f->b + d * f->b_row + v * FLOATS);
    for (int r = 0; r < rows; r++) {
      const float left = f->a[r * f->a_row + d * f->a_depth];
      for (int v = 0; v < vectors; v++)
        sum[r][v] = multiply_add_vector(left - (floats){0}, right[v], sum[r][v]);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) {
      float *to = f->c + r * f->c_row + v * FLOATS;
      store(to, f->add ? load(to) + sum[r][v] : sum[r][v]);
    }
}

/* Computes the rows after the last whole tile. */
INLINE void product_rest(int64_t rows, int vectors, const struct factors *f) {
  switch (rows) {
  case 1:
    product_tile(1, vectors, f);
    break;
  case 2:
    product_tile(2, vectors, f);
    break;
  case 3:
    product_tile(3, vectors, f);
    break;
  case 4:
    product_tile(4, vectors, f);
    break;
  case 5:
    product_tile(5, vectors, f);
    break;
#if defined(__AVX512F__)
  case 6:
    product_tile(6, vectors, f);
    break;
  case 7:
    product_tile(7, vectors, f);
    break;
#endif
  default:
    break;
  }
}

INLINE void product_columns(int64_t rows, int vectors, struct factors f) {
  int64_t r = 0;
  for (; r + TILE_ROWS <= rows; r += TILE_ROWS) {
    product_tile(TILE_ROWS, vectors, &f);
    f.a += TILE_ROWS * f.a_row;
    f.c += TILE_ROWS * f.c_row;
  }
  product_rest(rows - r, vectors, &f);
}

void ISA(winograd_product)(const struct winograd_product *p, const float *a, const float *b, float *c) {
  for (int64_t point = 0; point < WINOGRAD_POINTS; point++)
    for (int64_t column = 0; column < p->columns;) {
      const int vectors = p->columns - column >= 2 * FLOATS ? 2 : 1;
      const struct factors f = {p->depth,
                                p->a_row,
                                p->a_depth,
                                WINOGRAD_PANEL,
                                p->c_row,
                                a + point * p->a_point,
                                b + point * p->b_point + column / WINOGRAD_PANEL * p->b_panel +
                                    column % WINOGRAD_PANEL,
                                c + point * p->c_point + column,
                                p->add};
      if (vectors == 2)
        product_columns(p->rows, 2, f);
      else
        product_columns(p->rows, 1, f);
      column += vectors * FLOATS;
    }
}
