/* The reference backend: plain loops over row-major doubles, one function for each operator, obviously
 * correct. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/quantised.h"
#include "base/random.h"
#include "device/host.h"
#include "kernel/random_stream.h"
#include "kernel/ref/ref.h"
#include "op/matrix_shape.h"
#include "rewrite/rewrite.h"

/* ---- Convolution ---- */

/* Visits some products of a convolution: an element of w with `count` neighbours in a row of y, and their
 * partners in x, `stride` apart. */
typedef void products(void *sums, int64_t x, int64_t stride, int64_t w, int64_t y, int64_t count);

/* Walks every product of a convolution of x [N, C, H, W] with w [K, C / groups, R, S] to y [N, K, H', W']. */
static void walk_convolution(const struct conv_attributes *a, const struct tensor *x, const struct tensor *w,
                             const struct tensor *y, products *visit, void *sums) {
  const struct shape sx = shape_of(x), sw = shape_of(w), sy = shape_of(y);
  FOR(n, sy.n) FOR(k, sy.c) FOR(c, sw.c) FOR(r, sw.h) FOR(s, sw.w) {
    const int64_t channel = k / (sy.c / a->groups) * sw.c + c;
    const int64_t row = r * a->dilation - a->padding[0], column = s * a->dilation - a->padding[1];
    int64_t begin = 0, end = sy.w; /* of the places in a row of y whose column of x is there */
    while (begin < end && begin * a->stride + column < 0) begin++;
    while (end > begin && (end - 1) * a->stride + column >= sx.w) end--;
    FOR(i, sy.h)
    if (i * a->stride + row >= 0 && i * a->stride + row < sx.h)
      visit(sums, at(sx, n, channel, i * a->stride + row, begin * a->stride + column), a->stride,
            at(sw, k, c, r, s), at(sy, n, k, i, begin), end - begin);
  }
}

struct operands {
  const double *a, *b;
  double *sum;
};

static void visit_forward(void *sums, int64_t x, int64_t stride, int64_t w, int64_t y, int64_t count) {
  const struct operands *o = sums;
  FOR(i, count) o->sum[y + i] += o->a[x + i * stride] * o->b[w];
}

static void visit_data(void *sums, int64_t x, int64_t stride, int64_t w, int64_t y, int64_t count) {
  const struct operands *o = sums;
  FOR(i, count) o->sum[x + i * stride] += o->a[w] * o->b[y + i];
}

static void visit_weights(void *sums, int64_t x, int64_t stride, int64_t w, int64_t y, int64_t count) {
  const struct operands *o = sums;
  FOR(i, count) o->sum[w] += o->a[x + i * stride] * o->b[y + i];
}

RUN(run_conv) {
  UNUSED;
  const struct tensor *y = kernel_output(kernel, 0);
  const struct shape s = shape_of(y);
  double *sum = out[0];
  const double *addend = in[CONV_ADDEND], *bias = in[CONV_BIAS];
  FOR(i, y->elements)
  sum[i] = (addend != NULL ? addend[i] : 0) + (bias != NULL ? bias[i / (s.h * s.w) % s.c] : 0);
  walk_convolution(&ATTRIBUTES->conv, kernel_input(kernel, 0), kernel_input(kernel, 1), y, visit_forward,
                   &(struct operands){in[0], in[1], sum});
  return NEAP_OK;
}

/* w, dy, [addend] -> dx */
RUN(run_conv_backward_data) {
  UNUSED;
  const double *addend = in[CONV_BACK_ADDEND];
  double *dx = out[0];
  FOR(i, kernel_output(kernel, 0)->elements) dx[i] = addend != NULL ? addend[i] : 0;
  walk_convolution(&ATTRIBUTES->conv, kernel_output(kernel, 0), kernel_input(kernel, 0),
                   kernel_input(kernel, 1), visit_data, &(struct operands){in[0], in[1], out[0]});
  return NEAP_OK;
}

/* x, dy -> dw */
RUN(run_conv_backward_weights) {
  UNUSED;
  memset(out[0], 0, (size_t)kernel_output(kernel, 0)->elements * sizeof(double));
  walk_convolution(&ATTRIBUTES->conv, kernel_input(kernel, 0), kernel_output(kernel, 0),
                   kernel_input(kernel, 1), visit_weights, &(struct operands){in[0], in[1], out[0]});
  return NEAP_OK;
}

/* The convolution goes from y to x: w [C, K, R, S] */
RUN(run_conv_transposed) {
  UNUSED;
  const struct tensor *y = kernel_output(kernel, 0);
  const struct shape s = shape_of(y);
  double *sum = out[0];
  const double *bias = in[2];
  FOR(i, y->elements) sum[i] = bias != NULL ? bias[i / (s.h * s.w) % s.c] : 0;
  walk_convolution(&ATTRIBUTES->conv, y, kernel_input(kernel, 1), kernel_input(kernel, 0), visit_data,
                   &(struct operands){in[1], in[0], sum});
  return NEAP_OK;
}

/* ---- Linear ---- */

double noise_at(const struct tensor *t, int64_t i, const struct run_context *context) {
  static const double pi = 3.14159265358979323846;
  uint32_t words[4];
  random_philox(context->seed ^ random_name(RANDOM_NO_NAME, t->name), noise_stream(context->step),
                (uint64_t)i / 4, words);
  const uint32_t *pair = &words[i % 4 / 2 * 2];
  const double radius = sqrt(-2 * log(((pair[0] >> 8) + 1) * 0x1p-24)),
               angle = pi / 2 * ((pair[1] & 0xFFFFFF00u) * 0x1p-30 - 0.5);
  return (double)context->noise * radius * (i % 2 == 0 ? cos(angle) : sin(angle));
}

const double *weights_at(const struct tensor *w, const void *data, int64_t first, int64_t count,
                         double part[WEIGHTS_PART], const struct run_context *context) {
  float numbers[WEIGHTS_PART];
  if (w->perturbed) {
    FOR(i, count) part[i] = ((const double *)data)[first + i] + noise_at(w, first + i, context);
    return part;
  }
  if (!dtype_is_quantised(w->dtype)) return (const double *)data + first;
  dequantise(w->dtype, count, (const unsigned char *)data + dtype_bytes(w->dtype, (uint64_t)first), numbers);
  FOR(i, count) part[i] = (double)numbers[i];
  return part;
}

void copy_row(const struct tensor *table, const void *data, int64_t row, double *y,
              const struct run_context *context) {
  const int64_t width = table->dims[1];
  double part[WEIGHTS_PART];
  if (data == NULL) memset(y, 0, (size_t)width * sizeof *y);
  for (int64_t first = 0; data != NULL && first < width; first += WEIGHTS_PART) {
    const int64_t length = part_length(first, width);
    memcpy(y + first, weights_at(table, data, row * width + first, length, part, context),
           (size_t)length * sizeof *y);
  }
}

RUN(run_linear) {
  UNUSED;
  const struct shape x = shape_of(kernel_input(kernel, 0)), w = shape_of(kernel_input(kernel, 1));
  const double *a = in[0], *bias = in[2];
  double *y = out[0], part[WEIGHTS_PART];
  FOR(o, w.n) {
    FOR(n, x.n) y[n * w.n + o] = bias != NULL ? bias[o] : 0;
    for (int64_t first = 0; first < x.c; first += WEIGHTS_PART) {
      const int64_t length = part_length(first, x.c);
      const double *b = weights_at(kernel_input(kernel, 1), in[1], o * x.c + first, length, part, context);
      FOR(n, x.n) FOR(k, length) y[n * w.n + o] += a[n * x.c + first + k] * b[k];
    }
  }
  return NEAP_OK;
}

RUN(run_linear_backward_data) {
  UNUSED;
  const struct shape w = shape_of(kernel_input(kernel, 0)), dy = shape_of(kernel_input(kernel, 1));
  const double *b = in[1];
  double *dx = out[0], part[WEIGHTS_PART];
  FOR(i, dy.n * w.c) dx[i] = 0;
  FOR(o, w.n)
  for (int64_t first = 0; first < w.c; first += WEIGHTS_PART) {
    const int64_t length = part_length(first, w.c);
    const double *a = weights_at(kernel_input(kernel, 0), in[0], o * w.c + first, length, part, context);
    FOR(n, dy.n) FOR(k, length) dx[n * w.c + first + k] += b[n * w.n + o] * a[k];
  }
  return NEAP_OK;
}

RUN(run_linear_backward_weights) {
  UNUSED;
  const struct shape x = shape_of(kernel_input(kernel, 0)), dy = shape_of(kernel_input(kernel, 1));
  const double *a = in[0], *b = in[1], *addend = in[2];
  double *dw = out[0];
  FOR(o, dy.c) FOR(k, x.c) {
    double sum = addend != NULL ? addend[o * x.c + k] : 0;
    FOR(n, x.n) sum += b[n * dy.c + o] * a[n * x.c + k];
    dw[o * x.c + k] = sum;
  }
  return NEAP_OK;
}

/* Sum by channel. */
RUN(run_bias_backward) {
  UNUSED;
  const struct shape s = shape_of(kernel_input(kernel, 0));
  const double *dy = in[0];
  double *sum = out[0];
  FOR(c, s.c) {
    sum[c] = 0;
    FOR(n, s.n) FOR(h, s.h) FOR(w, s.w) sum[c] += dy[at(s, n, c, h, w)];
  }
  return NEAP_OK;
}

/* ---- Batch norm ---- */

RUN(run_batch_norm_statistics) {
  UNUSED;
  const struct shape s = shape_of(kernel_input(kernel, 0));
  const double *x = in[0], count = (double)(s.n * s.h * s.w);
  double *mean = out[0], *variance = out[1];
  FOR(c, s.c) {
    mean[c] = variance[c] = 0;
    FOR(n, s.n) FOR(h, s.h) FOR(w, s.w) mean[c] += x[at(s, n, c, h, w)] / count;
    FOR(n, s.n) FOR(h, s.h) FOR(w, s.w) variance[c] += pow(x[at(s, n, c, h, w)] - mean[c], 2) / count;
  }
  return NEAP_OK;
}

/* Returns the ceiling of the ReLU after batch norm. */
static double ceiling_of(const struct batch_norm_attributes *a) {
  return a->ceiling != 0 ? (double)a->ceiling : INFINITY;
}

/* Applies that ReLU to a number that is not NaN. */
static double cut_off(double x, const struct batch_norm_attributes *a) {
  if (!a->relu || isnan(x)) return x;
  return fmax(0, fmin(x, ceiling_of(a)));
}

RUN(run_batch_norm) {
  UNUSED;
  const struct shape s = shape_of(kernel_input(kernel, 0));
  const double *x = in[NORM_X], *mean = in[NORM_MEAN], *variance = in[NORM_VARIANCE], *gamma = in[NORM_GAMMA],
               *beta = in[NORM_BETA], *addend = in[NORM_ADDEND];
  double *y = out[0];
  FOR(n, s.n) FOR(c, s.c) FOR(h, s.h) FOR(w, s.w) {
    const int64_t i = at(s, n, c, h, w);
    const double deviation = sqrt(variance[c] + (double)ATTRIBUTES->batch_norm.epsilon),
                 sum = (x[i] - mean[c]) / deviation * gamma[c] + beta[c] + (addend != NULL ? addend[i] : 0);
    y[i] = cut_off(sum, &ATTRIBUTES->batch_norm);
  }
  return NEAP_OK;
}

/* Ioffe & Szegedy 2015, section 3, through the batch statistics unless they are fixed. dx may be in place of
 * dy, x or the addend: each channel's sums are made before any of its elements is written. */
RUN(run_batch_norm_backward) {
  UNUSED;
  const struct shape s = shape_of(kernel_input(kernel, 0));
  const double *x = in[0], *dy = in[1], *mean = in[2], *variance = in[3], *gamma = in[4], *beta = in[5];
  const double *addend = in[6], count = ATTRIBUTES->batch_norm.fixed ? INFINITY : (double)(s.n * s.h * s.w);
  double *dx = out[0], *dgamma = out[1], *dbeta = out[2];
  FOR(c, s.c) {
    const double deviation = sqrt(variance[c] + (double)ATTRIBUTES->batch_norm.epsilon);
    dgamma[c] = dbeta[c] = 0;
    for (int pass = 0; pass < 2; pass++) FOR(n, s.n) FOR(h, s.h) FOR(w, s.w) {
        const int64_t i = at(s, n, c, h, w);
        const double centred = (x[i] - mean[c]) / deviation;
        const double v = centred * gamma[c] + beta[c];
        const bool cut = ATTRIBUTES->batch_norm.relu && (v <= 0 || v >= ceiling_of(&ATTRIBUTES->batch_norm));
        const double g = cut ? 0 : dy[i];
        if (pass == 0)
          dgamma[c] += g * centred, dbeta[c] += g;
        else
          dx[i] = gamma[c] / deviation * (g - dbeta[c] / count - centred * dgamma[c] / count) +
                  (addend != NULL ? addend[i] : 0);
      }
  }
  return NEAP_OK;
}

RUN(run_running_statistics) {
  UNUSED;
  const double *mean = in[0], *variance = in[1], momentum = (double)ATTRIBUTES->batch_norm.momentum,
               count = (double)ATTRIBUTES->batch_norm.count;
  double *running_mean = in[2], *running_variance = in[3];
  const double kept = context->micro_batch > 0 ? 1 : 1 - momentum,
               share = momentum / (context->parts > 1 ? context->parts : 1);
  FOR(c, kernel_input(kernel, 0)->elements) {
    running_mean[c] = kept * running_mean[c] + share * mean[c];
    running_variance[c] =
        kept * running_variance[c] + share * variance[c] * (count > 1 ? count / (count - 1) : 1);
  }
  return NEAP_OK;
}

/* ---- Elementwise ---- */

#include "kernel/ref/real.h"

#define KEPT_X       const real x = ((const double *)in[0])[i], dy = ((const double *)in[1])[i];
#define KEPT_Y       const real y = ((const double *)in[0])[i], dy = ((const double *)in[1])[i];
#define KEPT_NOTHING const real dy = ((const double *)in[0])[i];

#define UNARY(NAME, id, text, about, KEEPS, READS, value, slope)                                             \
  RUN(run_##id) {                                                                                            \
    UNUSED;                                                                                                  \
    const real a = (double)ATTRIBUTES->scalar.a, b = (double)ATTRIBUTES->scalar.b;                           \
    (void)a, (void)b;                                                                                        \
    FOR(i, kernel_output(kernel, 0)->elements) {                                                             \
      const real x = ((const double *)in[0])[i];                                                             \
      ((double *)out[0])[i] = value;                                                                         \
    }                                                                                                        \
    return NEAP_OK;                                                                                          \
  }                                                                                                          \
  RUN(run_##id##_backward) {                                                                                 \
    UNUSED;                                                                                                  \
    const real a = (double)ATTRIBUTES->scalar.a, b = (double)ATTRIBUTES->scalar.b;                           \
    (void)a, (void)b;                                                                                        \
    FOR(i, kernel_output(kernel, 0)->elements) { KEPT_##KEEPS((double *)out[0])[i] = slope; }                \
    return NEAP_OK;                                                                                          \
  }
#include "op/elementwise_list.h"

RUN(run_relu_mask) {
  UNUSED;
  const double *x = in[0];
  double *y = out[0];
  unsigned char *mask = out[1];
  const int64_t count = kernel_output(kernel, 0)->elements;
  memset(mask, 0, dtype_bytes(NEAP_BIT, (uint64_t)count));
  FOR(i, count) {
    if (!(x[i] <= 0)) mask[i / 8] |= (unsigned char)(1u << i % 8);
    y[i] = x[i] <= 0 ? 0 : x[i];
  }
  return NEAP_OK;
}

RUN(run_relu_mask_backward) {
  UNUSED;
  const unsigned char *mask = in[0];
  const double *dy = in[1];
  double *dx = out[0];
  FOR(i, kernel_output(kernel, 0)->elements) dx[i] = mask[i / 8] >> i % 8 & 1 ? dy[i] : 0;
  return NEAP_OK;
}

/* Rounds as a cast to this type does; the tensor itself was widened. f32 means f64 here. */
static double rounded(double x, neap_dtype dtype) {
  const float f = (float)x;
  switch (dtype) {
  case NEAP_BF16:
    return (double)bf16_to_float(bf16_from_float(f));
  case NEAP_F16:
    return (double)f16_to_float(f16_from_float(f));
  case NEAP_F32:
  case NEAP_F64:
    return x;
  CASES_NOT_REAL:
    break;
  }
  return NAN;
}

RUN(run_cast) {
  UNUSED;
  FOR(i, kernel_output(kernel, 0)->elements)
  ((double *)out[0])[i] =
      rounded(dtype_real(kernel_input(kernel, 0)->dtype, in[0], i), (neap_dtype)ATTRIBUTES->dtype);
  return NEAP_OK;
}

RUN(run_stop_gradient) {
  UNUSED;
  if (out[0] != in[0]) memcpy(out[0], in[0], (size_t)kernel_output(kernel, 0)->elements * sizeof(double));
  return NEAP_OK;
}

RUN(run_dropout) {
  UNUSED;
  const double *x = in[0], p = (double)ATTRIBUTES->dropout.probability;
  double *y = out[0];
  FOR(i, kernel_output(kernel, 0)->elements) {
    uint32_t word[4];
    random_philox(context->seed, random_stream(run_draw(context), ATTRIBUTES->dropout.stream),
                  (uint64_t)i / 4, word);
    y[i] = (double)random_uniform(word[i % 4]) >= p ? x[i] / (1 - p) : 0;
  }
  return NEAP_OK;
}

RUN(run_reorder) {
  UNUSED;
  memcpy(out[0], in[0],
         dtype_bytes(kernel_input(kernel, 0)->dtype, (uint64_t)kernel_input(kernel, 0)->elements));
  return NEAP_OK;
}

/* ---- Pooling ---- */

/* Visits every pixel of x that lies in the window of an output pixel. `index`: its place in the window. */
/* clang-format off */
#define FOR_WINDOW(sx, sy)                                                                                   \
  FOR(n, sy.n)                                                                                               \
  FOR(c, sy.c)                                                                                               \
  FOR(i, sy.h) FOR(j, sy.w)                                                                                  \
      FOR(index, a->size * a->size) if (i * a->stride - a->padding + index / a->size >= 0 &&                 \
                                        i * a->stride - a->padding + index / a->size < sx.h &&               \
                                        j * a->stride - a->padding + index % a->size >= 0 &&                 \
                                        j * a->stride - a->padding + index % a->size < sx.w)
/* clang-format on */

static int64_t pixel(const struct pool_attributes *a, struct shape sx, int64_t n, int64_t c, int64_t i,
                     int64_t j, int64_t index) {
  return at(sx, n, c, i * a->stride - a->padding + index / a->size,
            j * a->stride - a->padding + index % a->size);
}

/* The index for a window in which ReLU before the pool leaves nothing; windows are smaller. */
enum { NO_WINNER = 255 };

RUN(run_max_pool) {
  UNUSED;
  const struct pool_attributes *a = &ATTRIBUTES->pool;
  const struct shape sx = shape_of(kernel_input(kernel, 0)), sy = shape_of(kernel_output(kernel, 0));
  const double *x = in[0];
  double *y = out[0];
  unsigned char *winner = out[1];
  memset(winner, NO_WINNER, (size_t)kernel_output(kernel, 1)->elements);
  if (a->relu) memset(y, 0, (size_t)kernel_output(kernel, 0)->elements * sizeof *y);
  FOR_WINDOW(sx, sy) {
    const int64_t o = at(sy, n, c, i, j);
    const double v = x[pixel(a, sx, n, c, i, j, index)];
    const bool wins = v > y[o] || isnan(v) || (!a->relu && winner[o] == NO_WINNER);
    if (wins) y[o] = v, winner[o] = (unsigned char)index;
  }
  return NEAP_OK;
}

RUN(run_max_pool_backward) {
  UNUSED;
  const struct pool_attributes *a = &ATTRIBUTES->pool;
  const struct shape sx = shape_of(kernel_output(kernel, 0)), sy = shape_of(kernel_input(kernel, 1));
  const unsigned char *winner = in[0];
  const double *dy = in[1];
  double *dx = out[0];
  memset(dx, 0, (size_t)kernel_output(kernel, 0)->elements * sizeof *dx);
  FOR_WINDOW(sx, sy)
  if (winner[at(sy, n, c, i, j)] == index) dx[pixel(a, sx, n, c, i, j, index)] += dy[at(sy, n, c, i, j)];
  return NEAP_OK;
}

/* Returns how many pixels of the window count: those of the image, or of the image and its padding. */
static double window_count(const struct pool_attributes *a, struct shape sx, int64_t i, int64_t j) {
  const int64_t border = a->count_padding ? a->padding : 0;
  double count = 0;
  FOR(r, a->size) FOR(s, a->size) {
    const int64_t row = i * a->stride - a->padding + r, column = j * a->stride - a->padding + s;
    count += row >= -border && row < sx.h + border && column >= -border && column < sx.w + border;
  }
  return count;
}

RUN(run_average_pool) {
  UNUSED;
  const struct pool_attributes *a = &ATTRIBUTES->pool;
  const struct shape sx = shape_of(kernel_input(kernel, 0)), sy = shape_of(kernel_output(kernel, 0));
  const double *x = in[0];
  double *y = out[0];
  memset(y, 0, (size_t)kernel_output(kernel, 0)->elements * sizeof *y);
  FOR_WINDOW(sx, sy) y[at(sy, n, c, i, j)] += x[pixel(a, sx, n, c, i, j, index)] / window_count(a, sx, i, j);
  return NEAP_OK;
}

RUN(run_average_pool_backward) {
  UNUSED;
  const struct pool_attributes *a = &ATTRIBUTES->pool;
  const struct shape sx = shape_of(kernel_output(kernel, 0)), sy = shape_of(kernel_input(kernel, 0));
  const double *dy = in[0];
  double *dx = out[0];
  memset(dx, 0, (size_t)kernel_output(kernel, 0)->elements * sizeof *dx);
  FOR_WINDOW(sx, sy)
  dx[pixel(a, sx, n, c, i, j, index)] += dy[at(sy, n, c, i, j)] / window_count(a, sx, i, j);
  return NEAP_OK;
}

RUN(run_global_average_pool) {
  UNUSED;
  const struct shape s = shape_of(kernel_input(kernel, 0));
  const double *x = in[0];
  double *y = out[0];
  FOR(n, s.n) FOR(c, s.c) {
    double sum = 0;
    FOR(p, s.h * s.w) sum += x[(n * s.c + c) * s.h * s.w + p];
    y[n * s.c + c] = sum / (double)(s.h * s.w);
  }
  return NEAP_OK;
}

RUN(run_global_average_pool_backward) {
  UNUSED;
  const struct shape s = shape_of(kernel_output(kernel, 0));
  const double *dy = in[0];
  double *dx = out[0];
  FOR(i, kernel_output(kernel, 0)->elements) dx[i] = dy[i / (s.h * s.w)] / (double)(s.h * s.w);
  return NEAP_OK;
}

/* ---- Optimizers ---- */

/* Runs a rule of op/update_list.h. */
#define UPDATE(NAME, id, word, text, stream, about, numbers, fields, ...)                                    \
  RUN(run_##id) {                                                                                            \
    UNUSED;                                                                                                  \
    const struct update_attributes *a = &ATTRIBUTES->update;                                                 \
    const int32_t given = kernel_node(kernel)->input_count;                                                  \
    real *ws = in[0], *firsts = given > 2 ? in[2] : NULL, *seconds = given > 3 ? in[3] : NULL;               \
    const real unit = (real)run_gradient_unit(context), t = (real)context->step + 1,                         \
               rate = (real)(context->learning_rate * a->rate), momentum = (real)a->momentum,                \
               weight_decay = (real)a->weight_decay, beta1 = (real)a->beta1, beta2 = (real)a->beta2,         \
               epsilon = (real)a->epsilon, origin = (real)a->origin,                                         \
               first_correction = 1 / (1 - pow(beta1, t)), second_correction = 1 / sqrt(1 - pow(beta2, t));  \
    const bool nesterov = a->nesterov, has_first = firsts != NULL, has_second = seconds != NULL;             \
    (void)momentum, (void)weight_decay, (void)origin, (void)beta1, (void)beta2, (void)epsilon,               \
        (void)first_correction;                                                                              \
    (void)second_correction, (void)nesterov;                                                                 \
    FOR(i, kernel_input(kernel, 0)->elements) {                                                              \
      real w = ws[i], first = has_first ? firsts[i] : 0, second = has_second ? seconds[i] : 0;               \
      const real g =                                                                                         \
          in[1] != NULL ? unit * ((const real *)in[1])[i] : noise_at(kernel_input(kernel, 0), i, context);   \
      __VA_ARGS__                                                                                            \
      ws[i] = w;                                                                                             \
      if (has_first) firsts[i] = first;                                                                      \
      if (has_second) seconds[i] = second;                                                                   \
    }                                                                                                        \
    return NEAP_OK;                                                                                          \
  }
#include "op/update_list.h"

/* Looks for overflow in a gradient that is added up. */
static void look_for_overflow(const double *gradient, int64_t count, const struct run_context *context) {
  if (context->largest > 0) FOR(i, count)
  if (!(fabs(gradient[i]) < (double)context->largest)) *context->overflowed = true;
}

RUN(run_accumulate) {
  UNUSED;
  look_for_overflow(in[1], kernel_input(kernel, 0)->elements, context);
  FOR(i, kernel_input(kernel, 0)->elements)
  ((double *)in[2])[i] += (double)run_gradient_unit(context) * ((const double *)in[1])[i];
  return NEAP_OK;
}

RUN(run_clear) {
  UNUSED;
  FOR(i, kernel_input(kernel, 0)->elements)((double *)in[0])[i] = 0;
  return NEAP_OK;
}

/* Returns true if element `i` of a sparse tensor has a value; those before it have `used` values. `indices`
 * of the first; NULL: positions are bits. */
static bool has_value(const void *positions, const uint16_t *indices, int64_t i, int64_t used) {
  const unsigned char *bits = positions;
  const int32_t *ends = positions;
  return indices == NULL ? bits[i / 8] >> i % 8 & 1
                         : used < ends[i / INDEX_BLOCK] && indices[used] == i % INDEX_BLOCK;
}

RUN(run_densify) {
  UNUSED;
  const int32_t first = *(const int32_t *)in[DENSIFY_OFFSET];
  const double *values = (const double *)in[DENSIFY_VALUES] + first;
  const uint16_t *indices = in[DENSIFY_INDICES] == NULL ? NULL : (uint16_t *)in[DENSIFY_INDICES] + first;
  int64_t used = 0;
  FOR(i, kernel_output(kernel, 0)->elements)
  ((double *)out[0])[i] = has_value(in[DENSIFY_POSITIONS], indices, i, used) ? values[used++] : 0;
  return NEAP_OK;
}

RUN(run_accumulate_sparse) {
  UNUSED;
  const int32_t first = *(const int32_t *)in[SPARSE_OFFSET];
  double *sums = (double *)in[SPARSE_SUM] + first;
  const uint16_t *indices = in[SPARSE_INDICES] == NULL ? NULL : (uint16_t *)in[SPARSE_INDICES] + first;
  int64_t used = 0;
  look_for_overflow(in[SPARSE_GRADIENT], kernel_input(kernel, SPARSE_GRADIENT)->elements, context);
  FOR(i, kernel_input(kernel, SPARSE_GRADIENT)->elements)
  if (has_value(in[SPARSE_POSITIONS], indices, i, used))
    sums[used++] += (double)run_gradient_unit(context) * ((const double *)in[SPARSE_GRADIENT])[i];
  return NEAP_OK;
}

RUN(run_momentum_begin) {
  UNUSED;
  const struct update_attributes *a = &ATTRIBUTES->update;
  double *w = in[0], *m = in[1];
  FOR(i, kernel_input(kernel, 0)->elements)
  m[i] = (double)a->momentum * m[i] + (double)a->weight_decay * (w[i] - (double)a->origin);
  return NEAP_OK;
}

RUN(run_momentum_end) {
  UNUSED;
  const double rate = (double)(context->learning_rate * ATTRIBUTES->update.rate);
  FOR(i, kernel_input(kernel, 0)->elements)((double *)in[0])[i] -= rate * ((const double *)in[1])[i];
  return NEAP_OK;
}

RUN(run_squared_norm) {
  UNUSED;
  const double *x = in[0];
  double sum = 0;
  FOR(i, kernel_input(kernel, 0)->elements) sum += x[i] * x[i];
  const double unit = (double)run_gradient_unit(context);
  *(double *)out[0] = sum * unit * unit;
  return NEAP_OK;
}

RUN(run_clip_coefficient) {
  UNUSED;
  const double scale = (double)ATTRIBUTES->scalar.a / (sqrt(*(const double *)in[0]) + 1e-6);
  *(double *)out[0] = scale > 1 ? 1 : scale;
  return NEAP_OK;
}

RUN(run_clip_gradient) {
  UNUSED;
  const double limit =
      ATTRIBUTES->scalar.a != 0 ? (double)(ATTRIBUTES->scalar.a / run_gradient_unit(context)) : INFINITY;
  FOR(i, kernel_output(kernel, 0)->elements) {
    const double x = ((const double *)in[0])[i], cut = x > limit ? limit : x < -limit ? -limit : x;
    ((double *)out[0])[i] = cut * (in[1] != NULL ? *(const double *)in[1] : 1);
  }
  return NEAP_OK;
}

/* ---- The table ---- */

static neap_status create_state(const struct neap_graph *graph, const struct lower_options *options,
                                void **state) {
  (void)graph, (void)options;
  *state = NULL;
  return NEAP_OK;
}

static void free_state(void *state) { (void)state; }

static uint64_t format_bytes(const struct tensor *tensor, struct memory_format format) {
  (void)format;
  return dtype_bytes(tensor->dtype, (uint64_t)tensor->elements);
}

static bool same_place(const struct tensor *tensor, struct memory_format a, struct memory_format b) {
  (void)tensor, (void)a, (void)b;
  return true; /* all are row-major */
}

static neap_status export_variable(void *state, const struct tensor *tensor, struct memory_format format,
                                   const void *data, float *plain) {
  (void)state, (void)format;
  if (dtype_is_quantised(tensor->dtype))
    dequantise(tensor->dtype, tensor->elements, data, plain);
  else
    FOR(i, tensor->elements) plain[i] = (float)dtype_real(tensor->dtype, data, i);
  return NEAP_OK;
}

static neap_status import_variable(void *state, const struct tensor *tensor, struct memory_format format,
                                   const float *plain, void *data) {
  (void)state, (void)format;
  if (dtype_is_quantised(tensor->dtype))
    return quantise(tensor->dtype, tensor->name, row_elements(tensor), tensor->elements, plain, data);
  FOR(i, tensor->elements) dtype_set_real(tensor->dtype, data, i, (double)plain[i]);
  return NEAP_OK;
}

static kernel_run *const runs[OP_COUNT] = {
#define OP(NAME, id) [OP_##NAME] = run_##id,
#include "op/list.h"
#undef OP
};

static void describe(const struct kernel *kernel, char *text, size_t size) {
  (void)kernel;
  snprintf(text, size, "reference");
}

static const char *own_kernels(const void *state) {
  (void)state;
  return "reference";
}

/* Returns the workspace for a row's states and their gradients (recurrent.c), given the gates [times, N, 4
 * width]. */
static uint64_t recurrent_workspace(const struct tensor *gates) {
  return (uint64_t)((gates->dims[0] + 3) * (gates->dims[2] / 4)) * sizeof(double);
}

/* Prepares an operator; all of them take and give row-major tensors. Operators that work in place on all
 * channels of a pixel keep two rows of them, and attention its gradients. */
static neap_status prepare(void *state, const struct neap_graph *graph, const struct node *node,
                           struct preparation *p) {
  (void)state;
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  if (node->op == OP_LOCAL_RESPONSE_NORM || node->op == OP_LOCAL_RESPONSE_NORM_BACKWARD)
    p->workspace = 2 * (uint64_t)graph->tensors.data[node->inputs[0]].dims[1] * sizeof(double);
  if (node->op == OP_LSTM_BACKWARD || node->op == OP_GRU_BACKWARD)
    p->workspace = recurrent_workspace(node_input(graph, node, 0));
  for (int32_t i = 0; node->op == OP_ATTENTION_BACKWARD && i < node->output_count; i++)
    p->workspace += (uint64_t)graph->tensors.data[node->outputs[i]].elements * sizeof(double);
  if (node_row(node)->across == ACROSS_ALIKE) {
    const struct matrix_shape shape = matrix_shape_of(node_input(graph, node, 0), node->op);
    p->workspace = rule_workspace((enum op)node->op, &node->attributes.update, &shape, sizeof(double));
  }
  if (node->op == OP_FETCH_ROWS) {
    const struct tensor *table = node_input(graph, node, 0);
    p->workspace = dtype_bytes(table->dtype, (uint64_t)table->dims[1]);
    p->seconds = fetch_rows_seconds(p->roofline, table, node_input(graph, node, 1)->elements);
  }
  if (node->op == OP_LINEAR_CROSS_ENTROPY || node->op == OP_LINEAR_CROSS_ENTROPY_BACKWARD) {
    const struct tensor *w = node_input(graph, node, LOSS_WEIGHTS);
    if (is_read_by_rows(w)) p->workspace = dtype_bytes(w->dtype, (uint64_t)w->elements);
  }
  if (node->op == OP_FETCH || node->op == OP_LOAD)
    p->seconds = fetch_seconds(p->roofline, node_input(graph, node, 0));
  p->run = runs[node->op];
  return NEAP_OK;
}

const struct backend reference_backend = {
    .name = "reference",
    .device = &host_device,
    .create_state = create_state,
    .free_state = free_state,
    .describe = describe,
    .own_kernels = own_kernels,
    .rewrite = rewrite_widen,
    .format_bytes = format_bytes,
    .same_place = same_place,
    .export_variable = export_variable,
    .import_variable = import_variable,
    .prepare = prepare,
};
