/* Kernels that move pixels: crop, resize, adaptive pooling. Work is divided into lines, the rows of pixels
 * of one channel block of one image: an image in channels last has one block, but many rows. One thread
 * writes a line, and adds its terms always in the same order. */
#include <string.h>

#include "kernel/cpu/isa/isa.h"

#define PRAGMA(text) _Pragma(#text)
#define FOR_LINES(a)                                                                                         \
  PRAGMA(omp parallel for if (stored_elements(a) >= PARALLEL_FROM))                                          \
  for (int64_t line = 0; line < (a).images * blocks_of(a) * (a).height; line++)

/* ---- Crop ---- */

void ISA(crop)(struct activation x_shape, struct activation y_shape, int64_t top, int64_t left,
               const float *x, float *y) {
  const int64_t lanes = x_shape.lanes, length = y_shape.width * lanes;
  FOR_LINES(y_shape) {
    const int64_t from = line / y_shape.height * x_shape.height + line % y_shape.height + top;
    memcpy(y + line * length, x + (from * x_shape.width + left) * lanes, (size_t)length * sizeof *y);
  }
}

void ISA(crop_backward)(struct activation x_shape, struct activation y_shape, int64_t top, int64_t left,
                        const float *dy, const float *addend, float *dx) {
  const int64_t lanes = x_shape.lanes, length = y_shape.width * lanes, whole = x_shape.width * lanes;
  FOR_LINES(x_shape) {
    const int64_t row = line % x_shape.height - top;
    float *to = dx + line * whole;
    if (addend == NULL)
      memset(to, 0, (size_t)whole * sizeof *to);
    else if (addend != dx)
      memcpy(to, addend + line * whole, (size_t)whole * sizeof *to);
    if (row < 0 || row >= y_shape.height) continue;
    const float *from = dy + (line / x_shape.height * y_shape.height + row) * length;
#pragma omp simd
    for (int64_t i = 0; i < length; i++) to[left * lanes + i] += from[i];
  }
}

/* ---- Resize ---- */

static struct resize_tap tap_at(int64_t i, int64_t from, int64_t to, bool align) {
  double place;
  if (align)
    place = to > 1 ? (double)(i * (from - 1)) / (double)(to - 1) : 0;
  else
    place = ((double)i + 0.5) * (double)from / (double)to - 0.5;
  if (place < 0) place = 0;
  const int64_t first = (int64_t)place;
  if (first >= from - 1) return (struct resize_tap){from - 1, from - 1, 0};
  return (struct resize_tap){first, first + 1, (float)(place - (double)first)};
}

struct taps {
  const struct resize_tap *rows, *columns; /* of y */
};

static struct taps make_taps(struct activation x_shape, struct activation y_shape, bool align,
                             void *workspace) {
  struct resize_tap *rows = workspace, *columns = rows + y_shape.height;
  for (int64_t i = 0; i < y_shape.height; i++) rows[i] = tap_at(i, x_shape.height, y_shape.height, align);
  for (int64_t j = 0; j < y_shape.width; j++) columns[j] = tap_at(j, x_shape.width, y_shape.width, align);
  return (struct taps){rows, columns};
}

void ISA(resize)(struct activation x_shape, struct activation y_shape, bool align_corners, const float *x,
                 float *y, void *workspace) {
  const int64_t lanes = x_shape.lanes, length = x_shape.width * lanes;
  const struct taps taps = make_taps(x_shape, y_shape, align_corners, workspace);
  FOR_LINES(y_shape) {
    const struct resize_tap row = taps.rows[line % y_shape.height];
    const float *slab = x + line / y_shape.height * x_shape.height * length;
    const float *upper = slab + row.first * length, *lower = slab + row.second * length;
    float *to = y + line * y_shape.width * lanes;
    for (int64_t j = 0; j < y_shape.width; j++) {
      const struct resize_tap column = taps.columns[j];
      const int64_t first = column.first * lanes, second = column.second * lanes;
      const float right = column.share, left = 1 - right, down = row.share, up = 1 - down;
#pragma omp simd
      for (int64_t l = 0; l < lanes; l++)
        to[j * lanes + l] = up * (left * upper[first + l] + right * upper[second + l]) +
                            down * (left * lower[first + l] + right * lower[second + l]);
    }
  }
}

/* Adds the gradient of one row of y to that of one row of x. */
static void spread_line(const struct resize_tap *columns, int64_t width, int64_t lanes, float weight,
                        const float *dy, float *dx) {
  for (int64_t j = 0; j < width; j++) {
    float *first = dx + columns[j].first * lanes, *second = dx + columns[j].second * lanes;
    const float *from = dy + j * lanes;
    const float right = weight * columns[j].share, left = weight * (1 - columns[j].share);
#pragma omp simd
    for (int64_t l = 0; l < lanes; l++) first[l] += left * from[l];
    if (right == 0) continue; /* there may be no second pixel */
#pragma omp simd
    for (int64_t l = 0; l < lanes; l++) second[l] += right * from[l];
  }
}

void ISA(resize_backward)(struct activation x_shape, struct activation y_shape, bool align_corners,
                          const float *dy, float *dx, void *workspace) {
  const int64_t lanes = x_shape.lanes, length = y_shape.width * lanes;
  const struct taps taps = make_taps(x_shape, y_shape, align_corners, workspace);
  FOR_LINES(x_shape) {
    const int64_t row = line % x_shape.height;
    const float *slab = dy + line / x_shape.height * y_shape.height * length;
    float *to = dx + line * x_shape.width * lanes;
    memset(to, 0, (size_t)(x_shape.width * lanes) * sizeof *to);
    for (int64_t i = 0; i < y_shape.height; i++) {
      const struct resize_tap tap = taps.rows[i];
      const float weight = tap.first == row ? 1 - tap.share : tap.second == row ? tap.share : 0;
      if (weight != 0) spread_line(taps.columns, y_shape.width, lanes, weight, slab + i * length, to);
    }
  }
}

/* ---- Adaptive average pooling ---- */

/* Returns the pixels of x in region i of an axis. */
static struct range region_at(int64_t i, int64_t from, int64_t to) {
  return (struct range){i * from / to, ((i + 1) * from + to - 1) / to};
}

static float share_of(struct range rows, struct range columns) {
  return 1 / (float)((rows.end - rows.begin) * (columns.end - columns.begin));
}

enum { TILE = 64 };

/* Computes the mean over a region in `width` lanes, at most TILE. Rows are summed separately, so that errors
 * grow with the sides of a region and not with its area. */
static void mean_of_region(const float *x, int64_t row_length, int64_t lanes, struct range rows,
                           struct range columns, int64_t width, float *y) {
  float sum[TILE] = {0};
  for (int64_t i = rows.begin; i < rows.end; i++) {
    float row[TILE] = {0};
    for (int64_t j = columns.begin; j < columns.end; j++)
#pragma omp simd
      for (int64_t l = 0; l < width; l++) row[l] += x[i * row_length + j * lanes + l];
#pragma omp simd
    for (int64_t l = 0; l < width; l++) sum[l] += row[l];
  }
  const float share = share_of(rows, columns);
#pragma omp simd
  for (int64_t l = 0; l < width; l++) y[l] = sum[l] * share;
}

void ISA(adaptive_average_pool)(struct activation x_shape, struct activation y_shape, const float *x,
                                float *y) {
  const int64_t lanes = x_shape.lanes, length = x_shape.width * lanes, tiles = (lanes + TILE - 1) / TILE;
#pragma omp parallel for if (stored_elements(x_shape) >= PARALLEL_FROM)
  for (int64_t part = 0; part < x_shape.images * blocks_of(x_shape) * tiles; part++) {
    const int64_t slab = part / tiles, lane = part % tiles * TILE,
                  width = lanes - lane < TILE ? lanes - lane : TILE;
    const float *from = x + slab * x_shape.height * length + lane;
    float *to = y + slab * pixels_of(y_shape) * lanes + lane;
    for (int64_t i = 0; i < y_shape.height; i++)
      for (int64_t j = 0; j < y_shape.width; j++)
        mean_of_region(from, length, lanes, region_at(i, x_shape.height, y_shape.height),
                       region_at(j, x_shape.width, y_shape.width), width,
                       to + (i * y_shape.width + j) * lanes);
  }
}

void ISA(adaptive_average_pool_backward)(struct activation x_shape, struct activation y_shape,
                                         const float *dy, float *dx) {
  const int64_t lanes = x_shape.lanes;
  FOR_LINES(x_shape) {
    const int64_t row = line % x_shape.height;
    const float *slab = dy + line / x_shape.height * pixels_of(y_shape) * lanes;
    float *to = dx + line * x_shape.width * lanes;
    memset(to, 0, (size_t)(x_shape.width * lanes) * sizeof *to);
    for (int64_t i = 0; i < y_shape.height; i++) {
      const struct range rows = region_at(i, x_shape.height, y_shape.height);
      if (row < rows.begin || row >= rows.end) continue;
      for (int64_t j = 0; j < y_shape.width; j++) {
        const struct range columns = region_at(j, x_shape.width, y_shape.width);
        const float *from = slab + (i * y_shape.width + j) * lanes;
        const float share = share_of(rows, columns);
        for (int64_t p = columns.begin; p < columns.end; p++)
#pragma omp simd
          for (int64_t l = 0; l < lanes; l++) to[p * lanes + l] += from[l] * share;
      }
    }
  }
}
