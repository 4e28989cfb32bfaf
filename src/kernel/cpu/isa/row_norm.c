/* Softmax, and layer, RMS and group norm. */
#include <math.h>
#include <string.h>

#include "kernel/cpu/isa/math.h"
#include "kernel/cpu/isa/storage.h"

/* ---- Softmax ---- */

/* Lines along the axis of at most SHORT_LINE elements are computed side by side, LINES at a time. */
enum { SHORT_LINE = 64, LINES = 16 };

/* Computes `lines` short lines from number `first` on, counted as [outer, inner]. */
static void softmax_of_lines(int64_t count, int64_t inner, int64_t first, int64_t lines, const float *x,
                             float *y) {
  float e[SHORT_LINE][LINES], highest[LINES], scale[LINES];
  double sums[LINES] = {0};
  for (int64_t l = 0; l < LINES; l++) {
    const int64_t line = first + (l < lines ? l : 0);
    const float *from = x + line / inner * count * inner + line % inner;
    for (int64_t i = 0; i < count; i++) e[i][l] = from[i * inner];
  }
  memcpy(highest, e[0], sizeof highest);
  for (int64_t i = 1; i < count; i++)
#pragma omp simd
    for (int l = 0; l < LINES; l++) highest[l] = e[i][l] > highest[l] ? e[i][l] : highest[l];
  for (int64_t i = 0; i < count; i++)
#pragma omp simd
    for (int l = 0; l < LINES; l++) {
      e[i][l] = exponential(e[i][l] - highest[l]);
      sums[l] += (double)e[i][l];
    }
  for (int l = 0; l < LINES; l++) scale[l] = (float)(1 / sums[l]);
  for (int64_t l = 0; l < lines; l++) {
    float *to = y + (first + l) / inner * count * inner + (first + l) % inner;
    for (int64_t i = 0; i < count; i++) to[i * inner] = e[i][l] * scale[l];
  }
}

/* Computes a line of stride `inner`. */
static inline __attribute__((always_inline)) void softmax_of_line(int64_t count, int64_t inner,
                                                                  const float *from, float *to) {
  float highest = from[0];
  double sums[SUM_LANES] = {0};
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < count; i++) highest = from[i * inner] > highest ? from[i * inner] : highest;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) to[i * inner] = exponential(from[i * inner] - highest);
  IN_LANES(i, lane, count, sums[lane] += (double)to[i * inner]);
  const float scale = (float)(1 / sum_of_lanes(sums));
#pragma omp simd
  for (int64_t i = 0; i < count; i++) to[i * inner] *= scale;
}

void ISA(softmax)(int64_t outer, int64_t count, int64_t inner, const float *x, float *y) {
  if (count <= SHORT_LINE) {
    const int64_t lines = outer * inner;
#pragma omp parallel for if (lines * count >= PARALLEL_FROM)
    for (int64_t first = 0; first < lines; first += LINES)
      softmax_of_lines(count, inner, first, lines - first < LINES ? lines - first : LINES, x, y);
    return;
  }
#pragma omp parallel for collapse(2) if (outer * count * inner >= PARALLEL_FROM)
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < inner; k++) {
      const int64_t at = o * count * inner + k;
      if (inner == 1)
        softmax_of_line(count, 1, x + at, y + at);
      else
        softmax_of_line(count, inner, x + at, y + at);
    }
}

/* dx = y (dy - sum of dy y) */
static inline __attribute__((always_inline)) void
softmax_backward_of_line(int64_t count, int64_t inner, const float *y, const float *dy, float *dx) {
  double sums[SUM_LANES] = {0};
  IN_LANES(i, lane, count, sums[lane] += (double)dy[i * inner] * (double)y[i * inner]);
  const float mean = (float)sum_of_lanes(sums);
#pragma omp simd
  for (int64_t i = 0; i < count; i++) dx[i * inner] = y[i * inner] * (dy[i * inner] - mean);
}

void ISA(softmax_backward)(int64_t outer, int64_t count, int64_t inner, const float *y, const float *dy,
                           float *dx) {
#pragma omp parallel for collapse(2) if (outer * count * inner >= PARALLEL_FROM)
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < inner; k++) {
      const int64_t at = o * count * inner + k;
      if (inner == 1)
        softmax_backward_of_line(count, 1, y + at, dy + at, dx + at);
      else
        softmax_backward_of_line(count, inner, y + at, dy + at, dx + at);
    }
}

/* ---- Norms of rows ---- */

enum { ROW_PARTS = 64 }; /* parts of the rows for the gradients of gamma and beta; their number is fixed */

/* Return the number of elements of gamma, and the first that row r reads. */
static int64_t channels_of(const struct row_norm *n) { return n->length / n->inner * n->groups; }
static int64_t first_channel(const struct row_norm *n, int64_t r) {
  return r % n->groups * (n->length / n->inner);
}

/* y[i] = (x[i] - mean) inverse gamma + beta, over elements that share gamma and beta. */
static void normalise(int64_t count, const float *x, float mean, float inverse, float gamma, float beta,
                      float *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] = (x[i] - mean) * inverse * gamma + beta;
}

static void norm_row(const struct row_norm *n, int64_t r, const float *from, const float *gamma,
                     const float *beta, float *to, float *mean, float *inverse) {
  double sums[SUM_LANES] = {0}, squares[SUM_LANES] = {0};
  if (n->centred) IN_LANES(i, lane, n->length, sums[lane] += (double)from[i]);
  const double centre = sum_of_lanes(sums) / (double)n->length;
  IN_LANES(i, lane, n->length, squares[lane] += ((double)from[i] - centre) * ((double)from[i] - centre));
  const float m = (float)centre,
              v = (float)(1 / sqrt(sum_of_lanes(squares) / (double)n->length + (double)n->epsilon));
  *mean = m;
  *inverse = v;
  if (gamma == NULL) {
    normalise(n->length, from, m, v, 1, 0, to);
  } else if (n->inner == 1) {
    const float *g = gamma + first_channel(n, r), *b = beta != NULL ? beta + first_channel(n, r) : NULL;
    if (b != NULL) {
#pragma omp simd
      for (int64_t i = 0; i < n->length; i++) to[i] = (from[i] - m) * v * g[i] + b[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n->length; i++) to[i] = (from[i] - m) * v * g[i];
    }
  } else {
    for (int64_t i = 0, c = first_channel(n, r); i < n->length; i += n->inner, c++)
      normalise(n->inner, from + i, m, v, gamma[c], beta != NULL ? beta[c] : 0, to + i);
  }
}

void ISA(row_norm)(struct row_norm n, const void *x, const float *gamma, const float *beta, void *y,
                   float *mean, float *inverse) {
  const struct stored from = {n.storage, (void *)x}, to = {n.storage, y};
#pragma omp parallel for if (n.rows * n.length >= PARALLEL_FROM)
  for (int64_t r = 0; r < n.rows; r++) {
    float buffer[HALF_ROW_LIMIT]; /* of x, then of y */
    const int64_t at = r * n.length;
    norm_row(&n, r, floats_at(from, at, n.length, buffer), gamma, beta, made_floats(to, at, buffer), &mean[r],
             &inverse[r]);
    store_floats(to, at, n.length, buffer);
  }
}

size_t ISA(row_norm_workspace)(struct row_norm n) {
  return (size_t)(2 * ROW_PARTS * channels_of(&n)) * sizeof(double);
}

struct row_sums {
  double gradient, product; /* of g = dy gamma, and of g times the normalised x */
};

struct row { /* row number `r` */
  int64_t r;
  const float *x, *dy;
  float mean, inverse;
};

/* Returns the sums of a row, and adds its part of the gradients of gamma and beta. */
static struct row_sums row_sums(const struct row_norm *n, struct row row, const float *gamma, double *dgamma,
                                double *dbeta) {
  struct row_sums total = {0, 0};
  const int64_t first = first_channel(n, row.r);
  const float *x = row.x, *dy = row.dy, mean = row.mean, inverse = row.inverse;
  if (n->inner == 1) {
    double gradients[SUM_LANES] = {0}, products[SUM_LANES] = {0};
    IN_LANES(i, lane, n->length, {
      const double g = (double)dy[i], h = ((double)x[i] - (double)mean) * (double)inverse,
                   scaled = gamma != NULL ? g * (double)gamma[first + i] : g;
      gradients[lane] += scaled;
      products[lane] += scaled * h;
      if (gamma != NULL) {
        dgamma[first + i] += g * h;
        dbeta[first + i] += g;
      }
    });
    return (struct row_sums){sum_of_lanes(gradients), sum_of_lanes(products)};
  }
  for (int64_t i = 0, c = first; i < n->length; i += n->inner, c++) {
    double gradients[SUM_LANES] = {0}, products[SUM_LANES] = {0};
    IN_LANES(k, lane, n->inner, {
      gradients[lane] += (double)dy[i + k];
      products[lane] += (double)dy[i + k] * (((double)x[i + k] - (double)mean) * (double)inverse);
    });
    const double gradient = sum_of_lanes(gradients), product = sum_of_lanes(products);
    const double scale = gamma != NULL ? (double)gamma[c] : 1;
    total.gradient += scale * gradient;
    total.product += scale * product;
    if (gamma != NULL) {
      dgamma[c] += product;
      dbeta[c] += gradient;
    }
  }
  return total;
}

/* dx = inverse (g - mean g - h mean (g h)), where g = dy gamma and h is the normalised x; without mean g if
 * rows are not centred. */
static void row_gradient(const struct row_norm *n, struct row row, const float *gamma, struct row_sums sums,
                         float *dx) {
  const float *x = row.x, *dy = row.dy, mean = row.mean, inverse = row.inverse;
  const float first = n->centred ? (float)(sums.gradient / (double)n->length) : 0,
              second = (float)(sums.product / (double)n->length);
  const int64_t channel = first_channel(n, row.r);
  if (n->inner == 1 && gamma != NULL) {
    const float *g = gamma + channel;
#pragma omp simd
    for (int64_t i = 0; i < n->length; i++)
      dx[i] = inverse * (dy[i] * g[i] - first - (x[i] - mean) * inverse * second);
    return;
  }
  for (int64_t i = 0, c = channel; i < n->length; i += n->inner, c++) {
    const float g = gamma != NULL ? gamma[c] : 1;
#pragma omp simd
    for (int64_t k = i; k < i + n->inner; k++)
      dx[k] = inverse * (dy[k] * g - first - (x[k] - mean) * inverse * second);
  }
}

void ISA(row_norm_backward)(struct row_norm n, const void *x, const void *dy, const float *mean,
                            const float *inverse, const float *gamma, struct norm_gradients d,
                            void *workspace) {
  const struct stored values = {n.storage, (void *)x}, given = {n.storage, (void *)dy},
                      made = {n.storage, d.dx};
  const int64_t channels = channels_of(&n);
  double *sums = workspace;
#pragma omp parallel for if (n.rows * n.length >= PARALLEL_FROM)
  for (int part = 0; part < ROW_PARTS; part++) {
    const struct range mine = part_of(n.rows, part, ROW_PARTS);
    double *own = sums + 2 * part * channels;
    if (gamma != NULL) memset(own, 0, (size_t)(2 * channels) * sizeof *own);
    for (int64_t r = mine.begin; r < mine.end; r++) {
      float x_buffer[HALF_ROW_LIMIT], dy_buffer[HALF_ROW_LIMIT]; /* the second of dy, then of dx */
      const int64_t at = r * n.length;
      const struct row row = {r, floats_at(values, at, n.length, x_buffer),
                              floats_at(given, at, n.length, dy_buffer), mean[r], inverse[r]};
      const struct row_sums total = row_sums(&n, row, gamma, own, own + channels);
      row_gradient(&n, row, gamma, total, made_floats(made, at, dy_buffer));
      store_floats(made, at, n.length, dy_buffer);
    }
  }
  if (gamma == NULL) return;
#pragma omp parallel for if (channels * ROW_PARTS >= PARALLEL_FROM)
  for (int64_t c = 0; c < channels; c++) {
    double g = 0, b = 0;
    for (int part = 0; part < ROW_PARTS; part++) {
      g += sums[2 * part * channels + c];
      b += sums[(2 * part + 1) * channels + c];
    }
    d.dgamma[c] = (float)g;
    d.dbeta[c] = (float)b;
  }
}
