/* Operators on tensors of any shape: plain loops over indices. */
#include <math.h>
#include <string.h>

#include "base/quantised.h"
#include "base/random.h"
#include "kernel/random_stream.h"
#include "kernel/ref/real.h"
#include "kernel/ref/ref.h"

/* Returns the place in `t`, broadcast to the shape of `y` from the last dimension on, for element `i` of
 * y. */
static int64_t broadcast_at(const struct tensor *t, const struct tensor *y, int64_t i) {
  int64_t place = 0, stride = 1;
  for (int32_t d = y->rank - 1, k = t->rank - 1; k >= 0; d--, k--) {
    const int64_t index = i % y->dims[d];
    i /= y->dims[d];
    place += t->dims[k] == 1 ? 0 : index * stride;
    stride *= t->dims[k];
  }
  return place;
}

/* ---- Two tensors ---- */

#define BINARY(NAME, id, text, about, value)                                                                 \
  RUN(run_##id) {                                                                                            \
    UNUSED;                                                                                                  \
    const struct tensor *out_shape = kernel_output(kernel, 0);                                               \
    FOR(i, out_shape->elements) {                                                                            \
      const real x = ((const double *)in[0])[broadcast_at(kernel_input(kernel, 0), out_shape, i)],           \
                 y = ((const double *)in[1])[broadcast_at(kernel_input(kernel, 1), out_shape, i)];           \
      ((double *)out[0])[i] = value;                                                                         \
    }                                                                                                        \
    return NEAP_OK;                                                                                          \
  }
#include "op/elementwise_list.h"

RUN(run_where) {
  UNUSED;
  const struct tensor *y = kernel_output(kernel, 0);
  FOR(i, y->elements) {
    const bool set = ((const unsigned char *)in[0])[broadcast_at(kernel_input(kernel, 0), y, i)] != 0;
    const double *taken = set ? in[1] : in[2];
    ((double *)out[0])[i] = taken != NULL ? taken[i] : (double)ATTRIBUTES->scalar.a;
  }
  return NEAP_OK;
}

/* ---- Two halves ---- */

#define GATED(NAME, id, text, about, value, slope_a, slope_b)                                                \
  RUN(run_##id) {                                                                                            \
    UNUSED;                                                                                                  \
    const struct tensor *t = kernel_output(kernel, 0);                                                       \
    const int64_t width = t->dims[t->rank - 1];                                                              \
    FOR(i, t->elements) {                                                                                    \
      const double *halves = (const double *)in[0] + i / width * 2 * width;                                  \
      const real a = halves[i % width], b = halves[width + i % width];                                       \
      ((double *)out[0])[i] = value;                                                                         \
    }                                                                                                        \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  RUN(run_##id##_backward) {                                                                                 \
    UNUSED;                                                                                                  \
    const struct tensor *t = kernel_input(kernel, 1);                                                        \
    const int64_t width = t->dims[t->rank - 1];                                                              \
    FOR(i, t->elements) {                                                                                    \
      const int64_t at = i / width * 2 * width + i % width;                                                  \
      const real a = ((const double *)in[0])[at], b = ((const double *)in[0])[at + width],                   \
                 dy = ((const double *)in[1])[i];                                                            \
      ((double *)out[0])[at] = slope_a;                                                                      \
      ((double *)out[0])[at + width] = slope_b;                                                              \
    }                                                                                                        \
    return NEAP_OK;                                                                                          \
  }
#include "op/gated_list.h"

/* ---- Other orders ---- */

RUN(run_transpose) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0), *y = kernel_output(kernel, 0);
  FOR(i, y->elements) {
    int64_t index[NEAP_MAX_RANK], rest = i, place = 0;
    for (int32_t d = y->rank - 1; d >= 0; d--) {
      index[ATTRIBUTES->order.order[d]] = rest % y->dims[d];
      rest /= y->dims[d];
    }
    FOR(d, x->rank) place = place * x->dims[d] + index[d];
    ((double *)out[0])[i] = ((const double *)in[0])[place];
  }
  return NEAP_OK;
}

RUN(run_expand) {
  UNUSED;
  const struct tensor *y = kernel_output(kernel, 0);
  FOR(i, y->elements)
  ((double *)out[0])[i] =
      (double)ATTRIBUTES->expand.scale * ((const double *)in[0])[broadcast_at(kernel_input(kernel, 0), y, i)];
  return NEAP_OK;
}

RUN(run_fill) {
  UNUSED;
  FOR(i, kernel_output(kernel, 0)->elements)((double *)out[0])[i] = (double)ATTRIBUTES->scalar.a;
  return NEAP_OK;
}

RUN(run_loss_share) {
  UNUSED;
  (void)kernel;
  *(double *)out[0] = (double)run_loss_gradient(context);
  return NEAP_OK;
}

/* ---- Rows by number ---- */

RUN(run_gather) {
  UNUSED;
  const struct tensor *table = kernel_input(kernel, 0);
  const int64_t width = table->dims[1];
  FOR(i, kernel_input(kernel, 1)->elements) {
    const int32_t row = ((const int32_t *)in[1])[i];
    const bool exists = row >= 0 && row < table->dims[0];
    copy_row(table, exists ? in[0] : NULL, row, (double *)out[0] + i * width, context);
  }
  return NEAP_OK;
}

RUN(run_gather_backward) {
  UNUSED;
  const struct tensor *table = kernel_output(kernel, 0);
  const int64_t width = table->dims[1];
  double *sums = out[0];
  if (in[2] == NULL)
    memset(sums, 0, (size_t)table->elements * sizeof *sums);
  else
    memmove(sums, in[2], (size_t)table->elements * sizeof *sums);
  FOR(i, kernel_input(kernel, 1)->elements) {
    const int32_t row = ((const int32_t *)in[0])[i / width];
    if (row >= 0 && row < table->dims[0]) sums[row * width + i % width] += ((const double *)in[1])[i];
  }
  return NEAP_OK;
}

/* ---- Along axes ---- */

RUN(run_sum) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0), *y = kernel_output(kernel, 0);
  double *sums = out[0];
  memset(sums, 0, (size_t)y->elements * sizeof *sums);
  FOR(i, x->elements)
  sums[broadcast_at(y, x, i)] += (double)ATTRIBUTES->axes.scale * ((const double *)in[0])[i];
  return NEAP_OK;
}

/* Returns element k of line number `line`; lines run along the axis. */
static int64_t line_at(const struct tensor *x, int64_t axis, int64_t line, int64_t k) {
  int64_t inner = 1;
  for (int64_t d = axis + 1; d < x->rank; d++) inner *= x->dims[d];
  return (line / inner * x->dims[axis] + k) * inner + line % inner;
}

RUN(run_softmax) {
  UNUSED;
  const struct tensor *t = kernel_input(kernel, 0);
  const int64_t axis = ATTRIBUTES->part.axis, count = t->dims[axis];
  const double *x = in[0];
  double *y = out[0];
  FOR(line, t->elements / count) {
    double highest = -INFINITY, sum = 0;
    FOR(k, count) highest = fmax(highest, x[line_at(t, axis, line, k)]);
    FOR(k, count) sum += exp(x[line_at(t, axis, line, k)] - highest);
    FOR(k, count) y[line_at(t, axis, line, k)] = exp(x[line_at(t, axis, line, k)] - highest) / sum;
  }
  return NEAP_OK;
}

RUN(run_softmax_backward) {
  UNUSED;
  const struct tensor *t = kernel_input(kernel, 0);
  const int64_t axis = ATTRIBUTES->part.axis, count = t->dims[axis];
  const double *y = in[0], *dy = in[1];
  double *dx = out[0];
  FOR(line, t->elements / count) {
    double sum = 0;
    FOR(k, count) sum += y[line_at(t, axis, line, k)] * dy[line_at(t, axis, line, k)];
    FOR(k, count) {
      const int64_t i = line_at(t, axis, line, k);
      dx[i] = y[i] * (dy[i] - sum);
    }
  }
  return NEAP_OK;
}

/* Returns the element of gamma and beta that element i of row r reads. */
static int64_t channel_of(const struct row_norm_attributes *a, int64_t r, int64_t i) {
  return r % a->groups * (a->length / a->inner) + i / a->inner;
}

RUN(run_row_norm) {
  UNUSED;
  const struct row_norm_attributes *a = &ATTRIBUTES->row_norm;
  const double *gamma = in[1], *beta = in[2], count = (double)a->length;
  double *mean = out[1], *inverse = out[2];
  FOR(r, kernel_input(kernel, 0)->elements / a->length) {
    const double *x = (const double *)in[0] + r * a->length;
    double *y = (double *)out[0] + r * a->length, variance = 0;
    mean[r] = 0;
    if (a->centred) FOR(i, a->length) mean[r] += x[i] / count;
    FOR(i, a->length) variance += (x[i] - mean[r]) * (x[i] - mean[r]) / count;
    inverse[r] = 1 / sqrt(variance + (double)a->epsilon);
    FOR(i, a->length) {
      const int64_t c = channel_of(a, r, i);
      y[i] = (x[i] - mean[r]) * inverse[r] * (gamma != NULL ? gamma[c] : 1) + (beta != NULL ? beta[c] : 0);
    }
  }
  return NEAP_OK;
}

/* Ba et al. 2016, through the statistics of the row. */
RUN(run_row_norm_backward) {
  UNUSED;
  const struct row_norm_attributes *a = &ATTRIBUTES->row_norm;
  const double *mean = in[2], *inverse = in[3], *gamma = in[4], count = (double)a->length;
  if (gamma != NULL) {
    memset(out[1], 0, (size_t)kernel_output(kernel, 1)->elements * sizeof(double));
    memset(out[2], 0, (size_t)kernel_output(kernel, 2)->elements * sizeof(double));
  }
  FOR(r, kernel_input(kernel, 0)->elements / a->length) {
    const double *x = (const double *)in[0] + r * a->length, *dy = (const double *)in[1] + r * a->length;
    double *dx = (double *)out[0] + r * a->length, first = 0, second = 0;
    FOR(i, a->length) {
      const int64_t c = channel_of(a, r, i);
      const double h = (x[i] - mean[r]) * inverse[r], g = dy[i] * (gamma != NULL ? gamma[c] : 1);
      if (a->centred) first += g / count;
      second += g * h / count;
      if (gamma == NULL) continue;
      ((double *)out[1])[c] += dy[i] * h;
      ((double *)out[2])[c] += dy[i];
    }
    FOR(i, a->length) {
      const double h = (x[i] - mean[r]) * inverse[r],
                   g = dy[i] * (gamma != NULL ? gamma[channel_of(a, r, i)] : 1);
      dx[i] = inverse[r] * (g - first - h * second);
    }
  }
  return NEAP_OK;
}

/* ---- Products ---- */

RUN(run_matmul) {
  UNUSED;
  const struct tensor *a = kernel_input(kernel, 0), *b = kernel_input(kernel, 1),
                      *y = kernel_output(kernel, 0);
  const bool ta = ATTRIBUTES->matmul.a_transposed, tb = ATTRIBUTES->matmul.b_transposed;
  const int64_t m = y->dims[y->rank - 2], n = y->dims[y->rank - 1], k = a->dims[a->rank - (ta ? 2 : 1)];
  struct tensor batch_a = *a, batch_b = *b, batch = *y; /* without their last two dimensions */
  batch_a.rank -= 2, batch_b.rank -= 2, batch.rank -= 2;
  FOR(i, y->elements / (m * n)) {
    const double *pa = (const double *)in[0] + broadcast_at(&batch_a, &batch, i) * m * k,
                 *pb = (const double *)in[1] + broadcast_at(&batch_b, &batch, i) * k * n;
    double *py = (double *)out[0] + i * m * n;
    FOR(r, m) FOR(c, n) {
      double sum = 0;
      FOR(j, k) sum += pa[ta ? j * m + r : r * k + j] * pb[tb ? c * k + j : j * n + c];
      py[r * n + c] = sum;
    }
  }
  return NEAP_OK;
}

/* ---- Losses of two tensors ---- */

#define PAIR_LOSS(NAME, id, text, about, value, slope, target_slope)                                         \
  RUN(run_##id) {                                                                                            \
    UNUSED;                                                                                                  \
    const real beta = (double)ATTRIBUTES->loss.beta, count = (double)kernel_input(kernel, 0)->elements;      \
    double sum = 0;                                                                                          \
    (void)beta;                                                                                              \
    FOR(i, kernel_input(kernel, 0)->elements) {                                                              \
      const real x = ((const double *)in[0])[i], t = ((const double *)in[1])[i];                             \
      sum += value;                                                                                          \
    }                                                                                                        \
    *(double *)out[0] = sum / count;                                                                         \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  RUN(run_##id##_backward) {                                                                                 \
    UNUSED;                                                                                                  \
    const real beta = (double)ATTRIBUTES->loss.beta, count = (double)kernel_input(kernel, 0)->elements;      \
    const double dloss = in[2] != NULL ? *(const double *)in[2] : 1;                                         \
    (void)beta;                                                                                              \
    FOR(i, kernel_output(kernel, 0)->elements) {                                                             \
      const real x = ((const double *)in[0])[i], t = ((const double *)in[1])[i];                             \
      (void)t;                                                                                               \
      ((double *)out[0])[i] = dloss / count * (ATTRIBUTES->loss.by_target ? (target_slope) : (slope));       \
    }                                                                                                        \
    return NEAP_OK;                                                                                          \
  }
#include "op/loss_list.h"

/* ---- Parameters with noise ---- */

RUN(run_perturb) {
  UNUSED;
  const struct tensor *w = kernel_input(kernel, 0);
  FOR(i, w->elements)((double *)out[0])[i] = ((const double *)in[0])[i] + noise_at(w, i, context);
  return NEAP_OK;
}

/* ---- Quantised parameters, and values in blocks of few bits ---- */

RUN(run_dequantise) {
  UNUSED;
  enum { PART = 1024 }; /* whole blocks of any type */
  const struct tensor *x = kernel_input(kernel, 0);
  for (int64_t first = 0; first < x->elements; first += PART) {
    const int64_t count = x->elements - first < PART ? x->elements - first : PART;
    const int64_t block = dtype_rows[x->dtype].block_elements, whole = (count + block - 1) / block * block;
    float numbers[PART];
    dequantise(x->dtype, whole, (const unsigned char *)in[0] + dtype_bytes(x->dtype, (uint64_t)first),
               numbers);
    FOR(i, count)((double *)out[0])[first + i] = (double)numbers[i];
  }
  return NEAP_OK;
}

/* The key and stream of a tensor's draws. */
struct draws {
  uint64_t seed, stream;
};

/* Returns the 16 random bits of element `i`. */
static uint32_t rounding_bits(struct draws draws, int64_t i) {
  uint32_t words[4];
  random_philox(draws.seed, draws.stream, (uint64_t)i / 8, words);
  return words[i % 8 / 2] >> i % 2 * 16 & 0xFFFF;
}

/* Writes a block of `count` numbers; x[0] is number `first`. Where there are fewer the first is repeated. */
static void compress_block(neap_dtype dtype, int64_t count, const double *x, struct draws draws,
                           int64_t first, unsigned char *block) {
  struct c8 made = {.q = {0}};
  float low = (float)x[0], high = low;
  bool finite = true;
  FOR(i, count) {
    low = fminf(low, (float)x[i]);
    high = fmaxf(high, (float)x[i]);
    finite = finite && isfinite((float)x[i]);
  }
  const struct spacing s = spacing_of(dtype, finite, low, high);
  made.step = s.step, made.least = s.least;
  for (int64_t i = 0; i < COMPRESSED_BLOCK && s.step != NOT_FINITE; i++) {
    const int32_t q = compressed_number(s, (float)x[i < count ? i : 0], rounding_bits(draws, first + i));
    const int64_t half = COMPRESSED_BLOCK / 2;
    if (dtype == NEAP_C8)
      made.q[i] = (uint8_t)q;
    else
      made.q[i % half] = (uint8_t)(made.q[i % half] | q << (i < half ? 0 : 4));
  }
  memcpy(block, &made, (size_t)dtype_rows[dtype].block_bytes);
}

RUN(run_compress) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0);
  const neap_dtype dtype = kernel_output(kernel, 0)->dtype;
  const struct draws draws = {context->seed ^ random_name(RANDOM_NO_NAME, kernel_node(kernel)->name),
                              compress_stream(run_draw(context))};
  for (int64_t first = 0; first < x->elements; first += COMPRESSED_BLOCK) {
    const int64_t left = x->elements - first, count = left < COMPRESSED_BLOCK ? left : COMPRESSED_BLOCK;
    compress_block(dtype, count, (const double *)in[0] + first, draws, first,
                   (unsigned char *)out[0] + dtype_bytes(dtype, (uint64_t)first));
  }
  return NEAP_OK;
}

/* ---- States ---- */

RUN(run_cache_write) {
  UNUSED;
  const struct tensor *state = kernel_input(kernel, CACHE_STATE), *rows = kernel_input(kernel, CACHE_ROWS);
  const int64_t length = state->dims[1], count = rows->dims[1],
                inner = rows->elements / rows->dims[0] / count,
                first = in[CACHE_POSITION] != NULL ? *(const int32_t *)in[CACHE_POSITION] : 0;
  double *to = in[CACHE_STATE];
  const double *from = in[CACHE_ROWS];
  FOR(n, rows->dims[0]) FOR(t, count) FOR(i, inner) {
    if (first + t >= 0 && first + t < length)
      to[(n * length + first + t) * inner + i] = from[(n * count + t) * inner + i];
  }
  return NEAP_OK;
}
