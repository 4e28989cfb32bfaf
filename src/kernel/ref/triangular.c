/* Cholesky factors and triangular systems: plain loops. */
#include <math.h>

#include "kernel/ref/ref.h"

/* The matrices of a batch. */
static int64_t side_of(const struct tensor *square) { return square->dims[square->rank - 1]; }
static int64_t matrices(const struct tensor *square) {
  return square->elements / (side_of(square) * side_of(square));
}

/* Golub and Van Loan, column by column. */
static void factor(int64_t n, const double *x, double *l) {
  FOR(j, n) {
    double pivot = x[j * n + j];
    FOR(k, j) pivot -= l[j * n + k] * l[j * n + k];
    const double d = pivot > 0 ? sqrt(pivot) : NAN;
    for (int64_t i = j + 1; i < n; i++) {
      double sum = x[i * n + j];
      FOR(k, j) sum -= l[i * n + k] * l[j * n + k];
      l[i * n + j] = sum / d;
    }
    FOR(i, j) l[i * n + j] = 0;
    l[j * n + j] = d;
  }
}

RUN(run_cholesky) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0);
  const int64_t n = side_of(x);
  FOR(m, matrices(x)) factor(n, (const double *)in[0] + m * n * n, (double *)out[0] + m * n * n);
  return NEAP_OK;
}

/* Solves for one vector in place, whose elements are `step` apart: L y = x, or L^T y = x. */
static void solve(int64_t n, const double *l, bool transposed, double *x, int64_t step) {
  FOR(r, n) {
    const int64_t i = transposed ? n - 1 - r : r;
    double sum = x[i * step];
    FOR(k, r) {
      const int64_t j = transposed ? n - 1 - k : k;
      sum -= (transposed ? l[j * n + i] : l[i * n + j]) * x[j * step];
    }
    x[i * step] = sum / l[i * n + i];
  }
}

/* Murray 2016, equation 8: dx = L^-T P L^-1, where P is the symmetric half of the lower triangle of L^T dl.
 */
RUN(run_cholesky_backward) {
  UNUSED;
  const struct tensor *t = kernel_input(kernel, 0);
  const int64_t n = side_of(t);
  FOR(m, matrices(t)) {
    const double *l = (const double *)in[0] + m * n * n, *dl = (const double *)in[1] + m * n * n;
    double *dx = (double *)out[0] + m * n * n;
    FOR(i, n) FOR(j, i + 1) {
      double sum = 0;
      for (int64_t k = i; k < n; k++) sum += l[k * n + i] * dl[k * n + j];
      dx[i * n + j] = dx[j * n + i] = sum / 2;
    }
    FOR(c, n) solve(n, l, true, dx + c, n);
    FOR(r, n) solve(n, l, true, dx + r * n, 1);
  }
  return NEAP_OK;
}

RUN(run_triangular_solve) {
  UNUSED;
  const struct solve_attributes *a = &ATTRIBUTES->solve;
  const struct tensor *l = kernel_input(kernel, 0), *b = kernel_input(kernel, 1);
  const int64_t n = side_of(l), count = b->elements / matrices(l) / n;
  double *y = out[0];
  FOR(i, b->elements) y[i] = ((const double *)in[1])[i];
  FOR(m, matrices(l)) FOR(v, count) {
    solve(n, (const double *)in[0] + m * n * n, a->transposed != a->right,
          y + m * n * count + v * (a->right ? n : 1), a->right ? 1 : count);
  }
  return NEAP_OK;
}

/* L y = b: dl = -db y^T; for the transpose, and at the right, the two change places. */
RUN(run_triangular_solve_backward) {
  UNUSED;
  const struct solve_attributes *a = &ATTRIBUTES->solve;
  const struct tensor *l = kernel_output(kernel, 0), *y = kernel_input(kernel, 0);
  const int64_t n = side_of(l), count = y->elements / matrices(l) / n, row = a->right ? 1 : count,
                column = a->right ? n : 1;
  const bool swapped = a->transposed != a->right;
  FOR(m, matrices(l)) FOR(i, n) FOR(j, n) {
    const double *first = (const double *)in[swapped ? 0 : 1] + m * n * count + i * row,
                 *second = (const double *)in[swapped ? 1 : 0] + m * n * count + j * row;
    const int64_t at = (m * n + i) * n + j;
    double sum = 0;
    FOR(k, j <= i ? count : 0) sum += first[k * column] * second[k * column];
    ((double *)out[0])[at] = (in[2] != NULL ? ((const double *)in[2])[at] : 0) - sum;
  }
  return NEAP_OK;
}
