/* The log determinant of a symmetric positive definite matrix in blocks, as a graph: block-tridiagonal, with
 * an arrow of rows below. By the block Cholesky factor (ADELIA 2026, arXiv 2605.06392; section 2).
 *
 *     D1 B1^T       C1^T        D [block, block], B [block, block], C [tip, block], T [tip, tip];
 *     B1 D2  B2^T   C2^T        the lower triangles of D and T are read
 *        B2  D3     C3^T
 *     C1 C2  C3     T
 */
#ifndef NEAP_EXAMPLES_LOG_DETERMINANT_H
#define NEAP_EXAMPLES_LOG_DETERMINANT_H

#include <neap.h>
#include <stdio.h>

struct arrowhead {
  int blocks;
  int64_t block, tip;
};

/* Makes block `i` of a kind, a parameter called "B3". */
static inline neap_tensor arrowhead_block(neap_builder *b, char kind, int i, int64_t rows, int64_t columns) {
  char name[16];
  snprintf(name, sizeof name, "%c%d", kind, i);
  return neap_parameter(b, name, 2, (int64_t[]){rows, columns},
                        (neap_parameter_options){.initial = NEAP_INITIAL_ZERO});
}

/* Gives the sum of the logarithms of the diagonal of [n, n]. */
static inline neap_tensor sum_log_diagonal(neap_builder *b, neap_tensor l, int64_t n) {
  const neap_tensor all = neap_reshape(b, l, 1, (int64_t[]){n * n});
  const neap_tensor diagonal = neap_take(b, all, 0, n, (neap_take_options){.step = n + 1});
  return neap_sum(b, neap_log(b, diagonal), NULL, 0, false);
}

/* Gives the log determinant, [1]. What a block passes on to the next is S = E E^T and R = G E^T. */
static inline neap_tensor log_determinant(neap_builder *b, const struct arrowhead *a) {
  const int64_t n = a->block, t = a->tip;
  neap_tensor s = -1, r = -1, sum = -1, tip = arrowhead_block(b, 'T', 0, t, t);
  for (int i = 0; i < a->blocks; i++) {
    neap_tensor d = arrowhead_block(b, 'D', i, n, n), c = arrowhead_block(b, 'C', i, t, n);
    if (i > 0) d = neap_subtract(b, d, s), c = neap_subtract(b, c, r);
    const neap_tensor l = neap_cholesky(b, d), g = neap_triangular_solve(b, l, c, true, true);
    const neap_tensor logs = sum_log_diagonal(b, l, n);
    sum = i > 0 ? neap_add(b, sum, logs) : logs;
    tip = neap_subtract(b, tip, neap_matmul(b, g, g, false, true));
    if (i + 1 == a->blocks) continue;
    const neap_tensor e = neap_triangular_solve(b, l, arrowhead_block(b, 'B', i, n, n), true, true);
    s = neap_matmul(b, e, e, false, true);
    r = neap_matmul(b, g, e, false, true);
  }
  sum = neap_add(b, sum, sum_log_diagonal(b, neap_cholesky(b, tip), t));
  return neap_scale(b, sum, 2, 0);
}

#endif
