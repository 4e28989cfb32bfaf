/* Kernels across channels: runs of them copied and added, local response normalisation. */
#include <math.h>
#include <string.h>

#include "kernel/cpu/isa/isa.h"

/* ---- Rows ---- */

/* What one thread takes at once, in elements. */
enum { CHUNK = 4096 };

#define PRAGMA(text) _Pragma(#text)
#define FOR_CHUNKS(rows, length)                                                                             \
  PRAGMA(omp parallel for collapse(2) if ((rows) * (length) >= PARALLEL_FROM))                               \
  for (int64_t row = 0; row < (rows); row++)                                                                 \
    for (int64_t begin = 0; begin < (length); begin += CHUNK)

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

/* Some pixels of an image with all their channels, [channels, PIXELS], whatever the tensor's layout: sums run
 * down the channels, vectors along the pixels. Everything is read before anything is written. */
enum { PIXELS = 16, TILES = 4 };

size_t ISA(response_workspace)(int64_t channels, int threads) {
  return (size_t)channels * PIXELS * TILES * sizeof(float) * (size_t)threads;
}

static float *tile_at(void *workspace, struct activation a, int which) {
  const int64_t elements = blocks_of(a) * a.lanes * PIXELS;
  return (float *)workspace + (omp_get_thread_num() * TILES + which) * elements;
}

/* The element of lane 0, pixel `first`, of a channel block. */
static int64_t block_offset(struct activation a, int64_t image, int64_t block, int64_t first) {
  return ((image * blocks_of(a) + block) * pixels_of(a) + first) * a.lanes;
}

static int64_t pixels_from(struct activation a, int64_t first) {
  return pixels_of(a) - first < PIXELS ? pixels_of(a) - first : PIXELS;
}

static void gather(struct activation a, const float *x, int64_t image, int64_t first, float *tile) {
  const int64_t count = pixels_from(a, first);
  memset(tile, 0, (size_t)(blocks_of(a) * a.lanes * PIXELS) * sizeof *tile);
  for (int64_t b = 0; b < blocks_of(a); b++)
    for (int64_t p = 0; p < count; p++)
      for (int64_t l = 0; l < a.lanes; l++)
        tile[(b * a.lanes + l) * PIXELS + p] = x[block_offset(a, image, b, first) + p * a.lanes + l];
}

static void scatter(struct activation a, const float *tile, int64_t image, int64_t first, float *y) {
  const int64_t count = pixels_from(a, first);
  for (int64_t b = 0; b < blocks_of(a); b++)
    for (int64_t p = 0; p < count; p++)
      for (int64_t l = 0; l < a.lanes; l++)
        y[block_offset(a, image, b, first) + p * a.lanes + l] = tile[(b * a.lanes + l) * PIXELS + p];
}

/* power = s^-beta. Where beta is a number of quarters, as the usual 3/4, two roots do. */
static void negative_power(const float *s, float beta, float *power) {
  const int quarters = (int)(4 * beta);
  if ((float)quarters != 4 * beta || quarters > 8) {
    for (int p = 0; p < PIXELS; p++) power[p] = powf(s[p], -beta);
    return;
  }
#pragma omp simd
  for (int p = 0; p < PIXELS; p++) {
    const float root = __builtin_sqrtf(__builtin_sqrtf(s[p]));
    float product = root;
    for (int i = 1; i < quarters; i++) product *= root;
    power[p] = 1 / product;
  }
}

/* s = k + alpha / size * the sum of squares in the window of channel c. */
static void window_sums(const float *x, int64_t channels, int64_t c, struct response r, float *s) {
  const int64_t begin = c - r.size / 2 > 0 ? c - r.size / 2 : 0,
                end = c + (r.size - 1) / 2 < channels ? c + (r.size - 1) / 2 + 1 : channels;
  for (int p = 0; p < PIXELS; p++) s[p] = 0;
  for (int64_t j = begin; j < end; j++)
#pragma omp simd
    for (int p = 0; p < PIXELS; p++) s[p] += x[j * PIXELS + p] * x[j * PIXELS + p];
  const float factor = r.alpha / (float)r.size;
  for (int p = 0; p < PIXELS; p++) s[p] = multiply_add(s[p], factor, r.k);
}

#define FOR_TILES(a)                                                                                         \
  PRAGMA(omp parallel for collapse(2) if (stored_elements(a) >= PARALLEL_FROM))                              \
  for (int64_t image = 0; image < (a).images; image++)                                                       \
    for (int64_t first = 0; first < pixels_of(a); first += PIXELS)

void ISA(local_response_norm)(struct activation a, struct response r, const float *x, float *y,
                              void *workspace) {
  const int64_t channels = blocks_of(a) * a.lanes;
  FOR_TILES(a) {
    float *in = tile_at(workspace, a, 0), *out = tile_at(workspace, a, 1), s[PIXELS], power[PIXELS];
    gather(a, x, image, first, in);
    for (int64_t c = 0; c < channels; c++) {
      window_sums(in, channels, c, r, s);
      negative_power(s, r.beta, power);
      for (int p = 0; p < PIXELS; p++) out[c * PIXELS + p] = in[c * PIXELS + p] * power[p];
    }
    scatter(a, out, image, first, y);
  }
}

/* dx_i = dy_i s_i^-beta - 2 alpha beta / size * x_i * sum of dy_j x_j s_j^(-beta - 1) over the j whose window
 * holds i. */
void ISA(local_response_norm_backward)(struct activation a, struct response r, const float *x,
                                       const float *dy, float *dx, void *workspace) {
  const int64_t channels = blocks_of(a) * a.lanes;
  const float factor = 2 * r.alpha * r.beta / (float)r.size;
  FOR_TILES(a) {
    float *in = tile_at(workspace, a, 0), *g = tile_at(workspace, a, 1), *direct = tile_at(workspace, a, 2),
          *share = tile_at(workspace, a, 3), s[PIXELS], power[PIXELS];
    gather(a, x, image, first, in);
    gather(a, dy, image, first, g);
    for (int64_t c = 0; c < channels; c++) {
      window_sums(in, channels, c, r, s);
      negative_power(s, r.beta, power);
      for (int p = 0; p < PIXELS; p++) {
        const float d = g[c * PIXELS + p] * power[p];
        direct[c * PIXELS + p] = d;
        share[c * PIXELS + p] = d * in[c * PIXELS + p] / s[p];
      }
    }
    for (int64_t c = 0; c < channels; c++) {
      const int64_t begin = c - (r.size - 1) / 2 > 0 ? c - (r.size - 1) / 2 : 0,
                    end = c + r.size / 2 < channels ? c + r.size / 2 + 1 : channels;
      for (int p = 0; p < PIXELS; p++) s[p] = 0;
      for (int64_t j = begin; j < end; j++)
        for (int p = 0; p < PIXELS; p++) s[p] += share[j * PIXELS + p];
      for (int p = 0; p < PIXELS; p++)
        g[c * PIXELS + p] = direct[c * PIXELS + p] - factor * in[c * PIXELS + p] * s[p];
    }
    scatter(a, g, image, first, dx);
  }
}
