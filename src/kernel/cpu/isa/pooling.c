/* Pooling. Every kernel loops over slabs: the pixels of one channel block of one image. */
#include <math.h>
#include <string.h>

#include "kernel/cpu/isa/isa.h"

/* Rows and columns of x under the window of one output pixel, clipped at the borders. */
struct extent {
  int64_t top, bottom, left, right;
};

static struct extent extent_at(struct activation x, struct window w, int64_t row, int64_t column) {
  struct extent e = {row * w.stride - w.padding, 0, column * w.stride - w.padding, 0};
  e.bottom = e.top + w.size < x.height ? e.top + w.size : x.height;
  e.right = e.left + w.size < x.width ? e.left + w.size : x.width;
  if (e.top < 0) e.top = 0;
  if (e.left < 0) e.left = 0;
  return e;
}

/* The index of a window in which ReLU leaves no element. */
enum { NO_WINNER = 255 };

/* Returns the row-major position of pixel (i, j) in its window. */
static uint8_t window_index(struct window w, int64_t row, int64_t column, int64_t i, int64_t j) {
  return (uint8_t)((i - (row * w.stride - w.padding)) * w.size + j - (column * w.stride - w.padding));
}

#define PRAGMA(text) _Pragma(#text)
#define FOR_SLABS(a)                                                                                         \
  PRAGMA(omp parallel for if (stored_elements(a) >= PARALLEL_FROM))                                          \
  for (int64_t slab = 0; slab < (a).images * blocks_of(a); slab++)
#define FOR_PIXELS(a)                                                                                        \
  for (int64_t row = 0; row < (a).height; row++)                                                             \
    for (int64_t column = 0; column < (a).width; column++)

/* Prefetches the pixel that the next row of windows reads where this row reads (i, j): hardware prefetchers
 * miss streams that end after a row of a small image. */
static inline void fetch_next(const float *from, struct activation x, struct window w, int64_t i, int64_t j) {
  const int64_t ahead = ((i + w.stride) * x.width + j) * x.lanes; /* may be beyond the tensor */
  __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)ahead * sizeof *from));
}

/* Returns the mask of the elements that are NaN. Without vectors of this width, elements are compared one by
 * one. A comparison of integers is cheaper there: one of floats with NaN takes two jumps. */
static inline mask nan_of(vector v) {
#if defined(__AVX2__)
  return v != v;
#else
  return ((mask)v & 0x7FFFFFFF) > 0x7F800000;
#endif
}

/* Finds the maxima of one window in VECTOR_WIDTH channels, in registers. */
static void max_of_vector(const float *from, struct activation x, struct window w, int64_t row,
                          int64_t column, struct extent e, float *y, uint8_t *index) {
  vector best = {0};
  mask winner = (mask){0} + NO_WINNER;
  if (!w.relu) {
    best = load_vector(from + (e.top * x.width + e.left) * x.lanes);
    winner = (mask){0} + window_index(w, row, column, e.top, e.left);
  }
  for (int64_t i = e.top; i < e.bottom; i++)
    for (int64_t j = e.left; j < e.right; j++) {
      const vector v = load_vector(from + (i * x.width + j) * x.lanes);
      fetch_next(from, x, w, i, j);
      const mask wins = (v > best) | nan_of(v); /* the last NaN stays, as in PyTorch */
      best = (vector)(((mask)v & wins) | ((mask)best & ~wins));
      winner = (((mask){0} + window_index(w, row, column, i, j)) & wins) | (winner & ~wins);
    }
  store_vector(y, best);
  for (int l = 0; l < VECTOR_WIDTH; l++) index[l] = (uint8_t)winner[l];
}

/* The same for one channel. */
static void max_of_channel(const float *from, struct activation x, struct window w, int64_t row,
                           int64_t column, struct extent e, float *y, uint8_t *index) {
  float best = w.relu ? 0 : from[(e.top * x.width + e.left) * x.lanes];
  *index = w.relu ? NO_WINNER : window_index(w, row, column, e.top, e.left);
  for (int64_t i = e.top; i < e.bottom; i++)
    for (int64_t j = e.left; j < e.right; j++) {
      const float v = from[(i * x.width + j) * x.lanes];
      if (!(v > best || v != v)) continue;
      best = v;
      *index = window_index(w, row, column, i, j);
    }
  *y = best;
}

void ISA(max_pool)(struct activation x_shape, struct activation y_shape, struct window w, const float *x,
                   float *y, uint8_t *index) {
  const int64_t lanes = x_shape.lanes;
  FOR_SLABS(x_shape) {
    const float *from = x + slab * pixels_of(x_shape) * lanes;
    FOR_PIXELS(y_shape) {
      const int64_t at = (slab * pixels_of(y_shape) + row * y_shape.width + column) * lanes;
      const struct extent e = extent_at(x_shape, w, row, column);
      int64_t l = 0;
      for (; l + VECTOR_WIDTH <= lanes; l += VECTOR_WIDTH)
        max_of_vector(from + l, x_shape, w, row, column, e, y + at + l, index + at + l);
      for (; l < lanes; l++) max_of_channel(from + l, x_shape, w, row, column, e, y + at + l, index + at + l);
    }
  }
}

/* Adds one window's gradients in VECTOR_WIDTH channels to the pixels that won. */
static void give_vector(float *to, struct activation x, struct window w, int64_t row, int64_t column,
                        struct extent e, const uint8_t *index, const float *dy) {
  const vector g = load_vector(dy);
  bytes indices;
  memcpy(&indices, index, sizeof indices);
  const mask winner = __builtin_convertvector(indices, mask);
  for (int64_t i = e.top; i < e.bottom; i++)
    for (int64_t j = e.left; j < e.right; j++) {
      float *pixel = to + (i * x.width + j) * x.lanes;
      const vector won = (vector)((mask)g & (winner == window_index(w, row, column, i, j)));
      store_vector(pixel, load_vector(pixel) + won);
    }
}

/* The same for one channel. */
static void give_channel(float *to, struct activation x, struct window w, int64_t row, int64_t column,
                         struct extent e, uint8_t index, float dy) {
  for (int64_t i = e.top; i < e.bottom; i++)
    for (int64_t j = e.left; j < e.right; j++)
      if (index == window_index(w, row, column, i, j)) to[(i * x.width + j) * x.lanes] += dy;
}

void ISA(max_pool_backward)(struct activation x_shape, struct activation y_shape, struct window w,
                            const uint8_t *index, const float *dy, float *dx) {
  const int64_t lanes = x_shape.lanes;
  FOR_SLABS(x_shape) {
    float *to = dx + slab * pixels_of(x_shape) * lanes;
    memset(to, 0, (size_t)(pixels_of(x_shape) * lanes) * sizeof *to);
    FOR_PIXELS(y_shape) {
      const int64_t at = (slab * pixels_of(y_shape) + row * y_shape.width + column) * lanes;
      const struct extent e = extent_at(x_shape, w, row, column);
      int64_t l = 0;
      for (; l + VECTOR_WIDTH <= lanes; l += VECTOR_WIDTH)
        give_vector(to + l, x_shape, w, row, column, e, index + at + l, dy + at + l);
      for (; l < lanes; l++) give_channel(to + l, x_shape, w, row, column, e, index[at + l], dy[at + l]);
    }
  }
}

/* Returns 1 / the number of pixels that count: those of the image under the window and, if w.count_padding,
 * those of the padding. */
static float share_of(struct activation x, struct window w, int64_t row, int64_t column, struct extent e) {
  if (!w.count_padding) return 1 / (float)((e.bottom - e.top) * (e.right - e.left));
  const int64_t top = row * w.stride - w.padding, left = column * w.stride - w.padding,
                height = x.height + w.padding - top, width = x.width + w.padding - left;
  return 1 / (float)((height < w.size ? height : w.size) * (width < w.size ? width : w.size));
}

void ISA(average_pool)(struct activation x_shape, struct activation y_shape, struct window w, const float *x,
                       float *y) {
  const int64_t lanes = x_shape.lanes;
  FOR_SLABS(x_shape) {
    const float *from = x + slab * pixels_of(x_shape) * lanes;
    FOR_PIXELS(y_shape) {
      float *out = y + (slab * pixels_of(y_shape) + row * y_shape.width + column) * lanes;
      const struct extent e = extent_at(x_shape, w, row, column);
      const float share = share_of(x_shape, w, row, column, e);
      int64_t l = 0;
      for (; l + VECTOR_WIDTH <= lanes; l += VECTOR_WIDTH) {
        vector sum = {0};
        for (int64_t i = e.top; i < e.bottom; i++)
          for (int64_t j = e.left; j < e.right; j++) {
            sum += load_vector(from + (i * x_shape.width + j) * lanes + l);
            fetch_next(from + l, x_shape, w, i, j);
          }
        store_vector(out + l, sum * share);
      }
      for (; l < lanes; l++) {
        float sum = 0;
        for (int64_t i = e.top; i < e.bottom; i++)
          for (int64_t j = e.left; j < e.right; j++) sum += from[(i * x_shape.width + j) * lanes + l];
        out[l] = sum * share;
      }
    }
  }
}

void ISA(average_pool_backward)(struct activation x_shape, struct activation y_shape, struct window w,
                                const float *dy, float *dx) {
  const int64_t lanes = x_shape.lanes;
  FOR_SLABS(x_shape) {
    float *to = dx + slab * pixels_of(x_shape) * lanes;
    memset(to, 0, (size_t)(pixels_of(x_shape) * lanes) * sizeof *to);
    FOR_PIXELS(y_shape) {
      const float *out = dy + (slab * pixels_of(y_shape) + row * y_shape.width + column) * lanes;
      const struct extent e = extent_at(x_shape, w, row, column);
      const float share = share_of(x_shape, w, row, column, e);
      int64_t l = 0;
      for (; l + VECTOR_WIDTH <= lanes; l += VECTOR_WIDTH) {
        const vector g = load_vector(out + l) * share;
        for (int64_t i = e.top; i < e.bottom; i++)
          for (int64_t j = e.left; j < e.right; j++) {
            float *pixel = to + (i * x_shape.width + j) * lanes + l;
            store_vector(pixel, load_vector(pixel) + g);
          }
      }
      for (; l < lanes; l++)
        for (int64_t i = e.top; i < e.bottom; i++)
          for (int64_t j = e.left; j < e.right; j++)
            to[(i * x_shape.width + j) * lanes + l] += out[l] * share;
    }
  }
}

/* Returns the number of lanes of a channel block without padding. */
static int64_t used_lanes(struct activation a, int64_t slab) {
  const int64_t left = a.channels - slab % blocks_of(a) * a.lanes;
  return left < a.lanes ? left : a.lanes;
}

void ISA(global_average_pool)(struct activation a, const float *x, float *y) {
  const float share = 1 / (float)pixels_of(a);
  FOR_SLABS(a) {
    const float *from = x + slab * pixels_of(a) * a.lanes;
    float *out = y + slab / blocks_of(a) * a.channels + slab % blocks_of(a) * a.lanes;
    const int64_t used = used_lanes(a, slab);
    memset(out, 0, (size_t)used * sizeof *out);
    for (int64_t p = 0; p < pixels_of(a); p++)
#pragma omp simd
      for (int64_t l = 0; l < used; l++) out[l] += from[p * a.lanes + l];
    for (int64_t l = 0; l < used; l++) out[l] *= share;
  }
}

void ISA(global_average_pool_backward)(struct activation a, const float *dy, float *dx) {
  const float share = 1 / (float)pixels_of(a);
  FOR_SLABS(a) {
    const float *out = dy + slab / blocks_of(a) * a.channels + slab % blocks_of(a) * a.lanes;
    float *to = dx + slab * pixels_of(a) * a.lanes;
    const int64_t used = used_lanes(a, slab);
    for (int64_t p = 0; p < pixels_of(a); p++)
      for (int64_t l = 0; l < a.lanes; l++) to[p * a.lanes + l] = l < used ? out[l] * share : 0;
  }
}
