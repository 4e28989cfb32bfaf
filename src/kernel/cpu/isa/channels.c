/* Kernels across channels: copied and added rows, local response normalisation. */
#include <math.h>
#include <string.h>

#include "kernel/cpu/isa/math.h"

/* ---- Rows ---- */

/* Elements that a thread takes at once. */
enum { CHUNK = 4096 };

#define FOR_CHUNKS(rows, length)                                                                             \
  _Pragma(                                                                                                   \
      "omp parallel for collapse(2) if (rows * length >= PARALLEL_FROM)") for (int64_t row = 0; row < rows;  \
                                                                               row++) for (int64_t begin =   \
                                                                                               0;            \
                                                                                           begin < length;   \
                                                                                           begin += CHUNK)

static int64_t chunk_length(int64_t begin, int64_t length) {
  return length - begin < CHUNK ? length - begin : CHUNK;
}

void ISA(copy_rows)(int64_t rows, int64_t length, const float *x, int64_t x_stride, float *y,
                    int64_t y_stride) {
  FOR_CHUNKS(rows, length)
  memcpy(y + row * y_stride + begin, x + row * x_stride + begin,
         (size_t)chunk_length(begin, length) * sizeof *y);
}

void ISA(add_rows)(int64_t rows, int64_t length, const float *x, int64_t x_stride, const float *addend,
                   float *y, int64_t y_stride) {
  FOR_CHUNKS(rows, length) {
    const float *from = x + row * x_stride + begin, *more = addend + row * y_stride + begin;
    float *to = y + row * y_stride + begin;
    const int64_t count = chunk_length(begin, length);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = from[i] + more[i];
  }
}

/* ---- Local response normalisation ---- */

/* Processes up to PIXELS pixels of an image together. In every layout of the tensor, each pixel becomes a
 * row of all its channels between two margins of zeros, so that windows are sums of shifted rows. All are
 * read before any is written. */
enum { PIXELS = 16, TILES = 2, ROWS = 3, MARGIN_MULTIPLE = 16 };

static int64_t margin_of(struct response r) {
  return (r.size / 2 + MARGIN_MULTIPLE) / MARGIN_MULTIPLE * MARGIN_MULTIPLE;
}

static int64_t row_length(int64_t channels, struct response r) { return channels + 2 * margin_of(r); }

size_t ISA(response_workspace)(int64_t channels, struct response r, int threads) {
  return (size_t)row_length(channels, r) * (PIXELS * TILES + ROWS) * sizeof(float) * (size_t)threads;
}

/* Workspace of a thread; margins are zeros. */
struct bench {
  int64_t channels, length; /* of a row without and with margins */
  float *x, *dy;            /* [PIXELS, length]: channel 0 of the first pixel */
  float *squares, *sums, *powers;
};

static struct bench bench_at(void *workspace, struct activation a, struct response r) {
  const int64_t channels = blocks_of(a) * a.lanes, length = row_length(channels, r),
                elements = length * (PIXELS * TILES + ROWS);
  float *base = (float *)workspace + omp_get_thread_num() * elements, *first = base + margin_of(r);
  memset(base, 0, (size_t)elements * sizeof *base);
  return (struct bench){.channels = channels,
                        .length = length,
                        .x = first,
                        .dy = first + PIXELS * length,
                        .squares = first + 2 * PIXELS * length,
                        .sums = first + (2 * PIXELS + 1) * length,
                        .powers = first + (2 * PIXELS + 2) * length};
}

/* Returns the offset of lane 0 of pixel `first` in a channel block. */
static int64_t block_offset(struct activation a, int64_t image, int64_t block, int64_t first) {
  return ((image * blocks_of(a) + block) * pixels_of(a) + first) * a.lanes;
}

static int64_t pixels_from(struct activation a, int64_t first) {
  return pixels_of(a) - first < PIXELS ? pixels_of(a) - first : PIXELS;
}

static void gather(struct activation a, const float *x, int64_t image, int64_t first, int64_t length,
                   float *rows) {
  const int64_t count = pixels_from(a, first);
  for (int64_t b = 0; b < blocks_of(a); b++)
    for (int64_t p = 0; p < count; p++)
#pragma omp simd
      for (int64_t l = 0; l < a.lanes; l++)
        rows[p * length + b * a.lanes + l] = x[block_offset(a, image, b, first) + p * a.lanes + l];
}

static void scatter(struct activation a, const float *rows, int64_t image, int64_t first, int64_t length,
                    float *y) {
  const int64_t count = pixels_from(a, first);
  for (int64_t b = 0; b < blocks_of(a); b++)
    for (int64_t p = 0; p < count; p++)
#pragma omp simd
      for (int64_t l = 0; l < a.lanes; l++)
        y[block_offset(a, image, b, first) + p * a.lanes + l] = rows[p * length + b * a.lanes + l];
}

/* sums[c] = the sum of values[c + j] over j from -before to after. */
static void window_sums(const float *values, int64_t channels, int64_t before, int64_t after, float *sums) {
  memset(sums, 0, (size_t)channels * sizeof *sums);
  for (int64_t j = -before; j <= after; j++)
#pragma omp simd
    for (int64_t c = 0; c < channels; c++) sums[c] += values[c + j];
}

/* powers = sums^-beta. If beta is a multiple of 1/4, as the usual 3/4, and at most 2, two square roots
 * replace the power. */
static void negative_powers(const float *sums, int64_t channels, float beta, float *powers) {
  const int quarters = (int)(4 * beta);
  if ((float)quarters != 4 * beta || quarters > 8) {
    for (int64_t c = 0; c < channels; c++) powers[c] = real_power(sums[c], -beta);
    return;
  }
#pragma omp simd
  for (int64_t c = 0; c < channels; c++) powers[c] = __builtin_sqrtf(__builtin_sqrtf(sums[c]));
  for (int64_t c = 0; c < channels; c++) {
    float product = powers[c];
    for (int i = 1; i < quarters; i++) product *= powers[c];
    powers[c] = 1 / product;
  }
}

/* Computes s and s^-beta of a pixel: s = k + alpha / size * the sum of squares in the window of each
 * channel. */
static void responses(const struct bench *w, struct response r, const float *x) {
  const float factor = r.alpha / (float)r.size;
#pragma omp simd
  for (int64_t c = 0; c < w->channels; c++) w->squares[c] = x[c] * x[c];
  window_sums(w->squares, w->channels, r.size / 2, (r.size - 1) / 2, w->sums);
#pragma omp simd
  for (int64_t c = 0; c < w->channels; c++) w->sums[c] = multiply_add(w->sums[c], factor, r.k);
  negative_powers(w->sums, w->channels, r.beta, w->powers);
}

void ISA(local_response_norm)(struct activation a, struct response r, const float *x, float *y,
                              void *workspace) {
#pragma omp parallel if (stored_elements(a) >= PARALLEL_FROM)
  {
    const struct bench w = bench_at(workspace, a, r);
#pragma omp for collapse(2)
    for (int64_t image = 0; image < a.images; image++)
      for (int64_t first = 0; first < pixels_of(a); first += PIXELS) {
        gather(a, x, image, first, w.length, w.x);
        for (int p = 0; p < PIXELS; p++) {
          float *row = w.x + p * w.length;
          responses(&w, r, row);
#pragma omp simd
          for (int64_t c = 0; c < w.channels; c++) row[c] *= w.powers[c];
        }
        scatter(a, w.x, image, first, w.length, y);
      }
  }
}

/* dx_i = dy_i s_i^-beta - 2 alpha beta / size * x_i * sum of dy_j x_j s_j^(-beta - 1) over the j whose
 * window contains i. */
static void pixel_gradient(const struct bench *w, struct response r, const float *x, float *dy) {
  const float factor = 2 * r.alpha * r.beta / (float)r.size;
  responses(w, r, x);
#pragma omp simd
  for (int64_t c = 0; c < w->channels; c++) {
    dy[c] *= w->powers[c];
    w->squares[c] = dy[c] * x[c] / w->sums[c];
  }
  window_sums(w->squares, w->channels, (r.size - 1) / 2, r.size / 2, w->sums);
#pragma omp simd
  for (int64_t c = 0; c < w->channels; c++) dy[c] -= factor * x[c] * w->sums[c];
}

void ISA(local_response_norm_backward)(struct activation a, struct response r, const float *x,
                                       const float *dy, float *dx, void *workspace) {
#pragma omp parallel if (stored_elements(a) >= PARALLEL_FROM)
  {
    const struct bench w = bench_at(workspace, a, r);
#pragma omp for collapse(2)
    for (int64_t image = 0; image < a.images; image++)
      for (int64_t first = 0; first < pixels_of(a); first += PIXELS) {
        gather(a, x, image, first, w.length, w.x);
        gather(a, dy, image, first, w.length, w.dy);
        for (int p = 0; p < PIXELS; p++) pixel_gradient(&w, r, w.x + p * w.length, w.dy + p * w.length);
        scatter(a, w.dy, image, first, w.length, dx);
      }
  }
}
