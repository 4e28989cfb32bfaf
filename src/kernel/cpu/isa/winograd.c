/* The transforms of Winograd's convolution F(4x4, 3x3), and of its gradient with respect to the kernels,
 * F(3x3, 4x4).
 *
 * The points are 0, a, -a, b, -b and infinity with a = 5/8 and b = 3/2. Of all points tried, these give the
 * least error, half of that of 1 and 2; they and their powers are exact in f32. Windows are multiplied by
 * the transposed interpolation (B^T), kernels by powers of the points over the interpolation's denominators
 * (G), products by the powers of the points (A^T). Vectors run over channels. */
#include <string.h>

#include "kernel/cpu/isa/floats.h"

enum { POINTS = 6, TILE = WINOGRAD_TILE, KERNEL_SIZE = 3 }; /* along an axis */
enum { WEIGHTS = KERNEL_SIZE * KERNEL_SIZE };

#define A         0.625f
#define B         1.5f
#define A2        (A * A)
#define B2        (B * B)
#define NULL_NORM (1 / (A2 * B2)) /* 1 / the product of the differences from the point to the others */
#define A_NORM    (1 / (2 * A2 * (A2 - B2)))
#define B_NORM    (1 / (2 * B2 * (B2 - A2)))

/* ---- Along one axis ---- */

/* Returns factor x + y. */
INLINE floats add_scaled(float factor, floats x, floats y) {
  return multiply_add_vector(factor - (floats){0}, x, y);
}

/* B^T d */
INLINE void window_line(const floats *d, floats *v) {
  const floats even_b = add_scaled(-B2, d[2], d[4]), odd_b = add_scaled(-B2, d[1], d[3]),
               even_a = add_scaled(-A2, d[2], d[4]), odd_a = add_scaled(-A2, d[1], d[3]);
  v[0] = add_scaled(A2 * B2, d[0], add_scaled(-(A2 + B2), d[2], d[4]));
  v[1] = add_scaled(A, odd_b, even_b);
  v[2] = add_scaled(-A, odd_b, even_b);
  v[3] = add_scaled(B, odd_a, even_a);
  v[4] = add_scaled(-B, odd_a, even_a);
  v[5] = add_scaled(A2 * B2, d[1], add_scaled(-(A2 + B2), d[3], d[5]));
}

/* G w */
INLINE void kernel_line(const floats *w, floats *u) {
  const floats even_a = A_NORM * add_scaled(A2, w[2], w[0]), odd_a = A_NORM * A * w[1],
               even_b = B_NORM * add_scaled(B2, w[2], w[0]), odd_b = B_NORM * B * w[1];
  u[0] = NULL_NORM * w[0];
  u[1] = even_a + odd_a;
  u[2] = even_a - odd_a;
  u[3] = even_b + odd_b;
  u[4] = even_b - odd_b;
  u[5] = w[2];
}

/* A^T m */
INLINE void result_line(const floats *m, floats *y) {
  const floats even_a = m[1] + m[2], odd_a = m[1] - m[2], even_b = m[3] + m[4], odd_b = m[3] - m[4];
  y[0] = m[0] + (even_a + even_b);
  y[1] = add_scaled(A, odd_a, B * odd_b);
  y[2] = add_scaled(A2, even_a, B2 * even_b);
  y[3] = add_scaled(A2 * A, odd_a, add_scaled(B2 * B, odd_b, m[5]));
}

/* Transforms a gradient to the points, as a kernel of four taps without the denominators. */
INLINE void gradient_line(const floats *g, floats *v) {
  const floats even_a = add_scaled(A2, g[2], g[0]), odd_a = add_scaled(A2, g[3], g[1]),
               even_b = add_scaled(B2, g[2], g[0]), odd_b = add_scaled(B2, g[3], g[1]);
  v[0] = g[0];
  v[1] = add_scaled(A, odd_a, even_a);
  v[2] = add_scaled(-A, odd_a, even_a);
  v[3] = add_scaled(B, odd_b, even_b);
  v[4] = add_scaled(-B, odd_b, even_b);
  v[5] = g[3];
}

/* Transforms products at the points to three taps, with the denominators. */
INLINE void kernel_gradient_line(const floats *m, floats *w) {
  const floats even_a = A_NORM * (m[1] + m[2]), odd_a = A_NORM * (m[1] - m[2]),
               even_b = B_NORM * (m[3] + m[4]), odd_b = B_NORM * (m[3] - m[4]);
  w[0] = add_scaled(NULL_NORM, m[0], even_a + even_b);
  w[1] = add_scaled(A, odd_a, B * odd_b);
  w[2] = add_scaled(A2, even_a, add_scaled(B2, even_b, m[5]));
}

/* ---- Places ---- */

/* The place of a tile in the tensor, and the rows and columns of the tile, or of its window, that exist. */
struct place {
  int64_t offset; /* of the tile's first pixel, which may lie outside the tensor */
  int64_t row, pixel;
  int64_t top, bottom, left, right;
};

/* A tile, by image, row and column. */
struct tile {
  int64_t image, row, column;
};

static struct tile first_tile(const struct winograd_tiles *t) {
  const int64_t in_image = t->rows * t->columns, at = t->first % in_image;
  return (struct tile){t->first / in_image, at / t->columns, at % t->columns};
}

static void next_tile(const struct winograd_tiles *t, struct tile *at) {
  if (++at->column < t->columns) return;
  at->column = 0;
  if (++at->row < t->rows) return;
  at->row = 0;
  at->image++;
}

static struct tile tile_below(const struct winograd_tiles *t, struct tile at) {
  if (++at.row < t->rows) return at;
  return (struct tile){at.image + 1, 0, at.column};
}

static struct place place_of(const struct winograd_tiles *t, struct tile at, int64_t size) {
  const struct activation *a = &t->a;
  const int64_t y = at.row * TILE - t->top, x = at.column * TILE - t->left;
  return (struct place){
      .offset = (at.image * blocks_of(*a) * pixels_of(*a) + y * a->width + x) * a->lanes,
      .row = a->width * a->lanes,
      .pixel = a->lanes,
      .top = most(0, -y),
      .bottom = least(size, a->height - y),
      .left = most(0, -x),
      .right = least(size, a->width - x),
  };
}

static bool is_whole(const struct place *p, int64_t size) {
  return p->top == 0 && p->left == 0 && p->bottom == size && p->right == size;
}

/* Returns the number of channels of a vector that the tensor has, those that pad a block included. */
static int64_t lanes_at(const struct activation *a, int64_t channel) {
  return most(0, least(FLOATS, blocks_of(*a) * a->lanes - channel));
}

static int64_t channel_offset(const struct activation *a, int64_t channel) {
  return channel / a->lanes * a->lanes * pixels_of(*a) + channel % a->lanes;
}

static int64_t whole_lanes(int64_t channels) {
  return (channels + WINOGRAD_LANES - 1) / WINOGRAD_LANES * WINOGRAD_LANES;
}

static int64_t column_offset(const struct winograd_matrix *m, int64_t column) {
  return column / WINOGRAD_PANEL * m->panel + column % WINOGRAD_PANEL;
}

static const void *pixel_at(neap_dtype storage, const void *x, const struct place *p, int64_t i, int64_t j) {
  return element_at(x, storage, p->offset + i * p->row + j * p->pixel);
}

/* Prefetches a tile's pixels, or those of a window that the window above does not have; at the top of an
 * image these are not all. They may lie beyond the tensor. Hardware prefetchers miss them, since rows of a
 * small image are short. */
INLINE void fetch(neap_dtype storage, const void *x, const struct place *p, int size) {
  enum { LINE = 64 };
  const int64_t element = (int64_t)bytes_of(storage), pixel = p->pixel * element,
                step = pixel < LINE ? LINE / pixel : 1;
  for (int i = size - TILE; i < size; i++)
    for (int64_t j = 0; j < TILE; j += step)
      __builtin_prefetch(
          (const void *)((uintptr_t)x + (uintptr_t)((p->offset + i * p->row) * element + j * pixel)));
}

/* Copies size x size pixels as floats; pixels that do not exist are 0. */
INLINE void copy_edge(neap_dtype storage, const void *x, const struct place *p, int size, int64_t lanes,
                      floats *copy) {
  for (int i = 0; i < size; i++)
    for (int j = 0; j < size; j++) {
      copy[i * size + j] = (floats){0};
      if (i < p->top || i >= p->bottom || j < p->left || j >= p->right) continue;
      const void *from = pixel_at(storage, x, p, i, j);
      if (lanes == FLOATS)
        copy[i * size + j] = load_stored(storage, from);
      else
        widen_run(storage, lanes, from, (float *)&copy[i * size + j]);
    }
}
INLINE void copy_whole(neap_dtype storage, const void *x, const struct place *p, int size, floats *copy) {
  for (int i = 0; i < size; i++)
    for (int j = 0; j < size; j++) copy[i * size + j] = load_stored(storage, pixel_at(storage, x, p, i, j));
}

/* ---- Windows and gradients at the points ---- */

static void window_at_points(const float *x, int64_t row, int64_t pixel, int64_t point, float *v) {
  floats half[POINTS][POINTS];
  for (int j = 0; j < POINTS; j++) {
    floats d[POINTS], points[POINTS];
    for (int i = 0; i < POINTS; i++) d[i] = load(x + i * row + j * pixel);
    window_line(d, points);
    for (int i = 0; i < POINTS; i++) half[i][j] = points[i];
  }
  for (int i = 0; i < POINTS; i++) {
    floats points[POINTS];
    window_line(half[i], points);
    for (int j = 0; j < POINTS; j++) store(v + (i * POINTS + j) * point, points[j]);
  }
}

static void gradient_at_points(const float *dy, int64_t row, int64_t pixel, int64_t point, float *v) {
  floats half[POINTS][TILE];
  for (int j = 0; j < TILE; j++) {
    floats g[TILE], points[POINTS];
    for (int i = 0; i < TILE; i++) g[i] = load(dy + i * row + j * pixel);
    gradient_line(g, points);
    for (int i = 0; i < POINTS; i++) half[i][j] = points[i];
  }
  for (int i = 0; i < POINTS; i++) {
    floats points[POINTS];
    gradient_line(half[i], points);
    for (int j = 0; j < POINTS; j++) store(v + (i * POINTS + j) * point, points[j]);
  }
}

typedef void at_points(const float *x, int64_t row, int64_t pixel, int64_t point, float *v);

/* Transforms tiles to the points. size: of the tiles, or of their windows. */
INLINE void tiles_at_points(neap_dtype storage, const struct winograd_tiles *t, int size,
                            at_points *transform, const void *x, float *v) {
  for (int64_t c = 0; c < whole_lanes(t->channels); c += FLOATS) {
    const int64_t lanes = lanes_at(&t->a, t->channel + c);
    const void *from = element_at(x, storage, channel_offset(&t->a, t->channel + c));
    float *to = v + column_offset(&t->matrix, c);
    struct tile at = first_tile(t);
    for (int64_t i = 0; i < t->count; i++, next_tile(t, &at), to += t->matrix.row) {
      const struct place p = place_of(t, at, size), below = place_of(t, tile_below(t, at), size);
      fetch(storage, from, &below, size);
      const bool whole = lanes == FLOATS && is_whole(&p, size);
      if (whole && storage == NEAP_F32) {
        transform((const float *)from + p.offset, p.row, p.pixel, t->matrix.point, to);
        continue;
      }
      floats copy[POINTS * POINTS];
      if (whole)
        copy_whole(storage, from, &p, size, copy);
      else
        copy_edge(storage, from, &p, size, lanes, copy);
      transform((const float *)copy, size * FLOATS, FLOATS, t->matrix.point, to);
    }
  }
}

void ISA(winograd_windows)(const struct winograd_tiles *t, const void *x, float *v) {
  BY_STORAGE(t->a.storage, tiles_at_points, t, POINTS, window_at_points, x, v);
}

void ISA(winograd_gradients)(const struct winograd_tiles *t, const void *dy, float *v) {
  BY_STORAGE(t->a.storage, tiles_at_points, t, TILE, gradient_at_points, dy, v);
}

/* ---- Results ---- */

INLINE void result_of_points(const float *m, int64_t point, floats bias, floats *y) {
  floats half[TILE][POINTS];
  for (int j = 0; j < POINTS; j++) {
    floats points[POINTS], results[TILE];
    for (int i = 0; i < POINTS; i++) points[i] = load(m + (i * POINTS + j) * point);
    result_line(points, results);
    for (int i = 0; i < TILE; i++) half[i][j] = results[i];
  }
  for (int i = 0; i < TILE; i++) {
    result_line(half[i], y + i * TILE);
    for (int j = 0; j < TILE; j++) y[i * TILE + j] += bias;
  }
}

/* Stores the pixels of a tile that exist, in a whole vector of channels. */
INLINE void store_tile(neap_dtype storage, const struct place *p, int64_t rows, int64_t columns,
                       const floats *results, const void *addend, void *y) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      const floats v = results[i * TILE + j];
      store_stored(storage, (void *)pixel_at(storage, y, p, i, j),
                   addend == NULL ? v : v + load_stored(storage, pixel_at(storage, addend, p, i, j)));
    }
}

INLINE void store_lanes(neap_dtype storage, const struct place *p, int64_t lanes, const floats *results,
                        const void *addend, void *y) {
  for (int64_t i = 0; i < p->bottom; i++)
    for (int64_t j = 0; j < p->right; j++) {
      float sums[FLOATS] = {0};
      if (addend != NULL) widen_run(storage, lanes, pixel_at(storage, addend, p, i, j), sums);
      store(sums, load(sums) + results[i * TILE + j]);
      narrow_run(storage, lanes, sums, (void *)pixel_at(storage, y, p, i, j));
    }
}

/* Computes a vector of channels of all tiles. bias: of these channels; addend may be NULL. */
INLINE void results_of_channels(neap_dtype storage, const struct winograd_tiles *t, int64_t lanes,
                                const float *m, floats bias, const void *addend, void *y) {
  struct tile at = first_tile(t);
  for (int64_t i = 0; i < t->count; i++, next_tile(t, &at), m += t->matrix.row) {
    const struct place p = place_of(t, at, TILE), below = place_of(t, tile_below(t, at), TILE);
    floats results[TILE * TILE];
    fetch(storage, y, &below, TILE);
    if (addend != NULL && addend != y) fetch(storage, addend, &below, TILE);
    result_of_points(m, t->matrix.point, bias, results);
    if (lanes < FLOATS)
      store_lanes(storage, &p, lanes, results, addend, y);
    else if (is_whole(&p, TILE))
      store_tile(storage, &p, TILE, TILE, results, addend, y);
    else
      store_tile(storage, &p, p.bottom, p.right, results, addend, y);
  }
}

void ISA(winograd_results)(const struct winograd_tiles *t, const float *m, const void *bias,
                           const void *addend, void *y) {
  const neap_dtype storage = t->a.storage;
  for (int64_t c = 0; c < whole_lanes(t->channels); c += FLOATS) {
    const int64_t channel = t->channel + c, lanes = lanes_at(&t->a, channel),
                  at = channel_offset(&t->a, channel), biased = least(FLOATS, t->a.channels - channel);
    const void *sums = addend == NULL ? NULL : element_at(addend, storage, at);
    void *to = (void *)element_at(y, storage, at);
    floats shift = {0};
    if (bias != NULL && biased > 0)
      widen_run(storage, biased, element_at(bias, storage, channel), (float *)&shift);
    BY_STORAGE(storage, results_of_channels, t, lanes, m + column_offset(&t->matrix, c), shift, sums, to);
  }
}

/* ---- Kernels ---- */

static int64_t weight_at(const struct winograd_weights *w, int64_t input, int64_t output) {
  return output * w->output_step + input * w->input_step;
}

/* Loads the kernels of one input and a vector of outputs, transposed to [weight][output]; kernels that do
 * not exist are 0. */
INLINE void load_kernels(neap_dtype storage, const struct winograd_weights *w, const void *weights,
                         int64_t input, int64_t output, float kernels[WEIGHTS][FLOATS]) {
  const int64_t count = input < w->inputs ? most(0, least(FLOATS, w->outputs - output)) : 0;
  if (count < FLOATS) memset(kernels, 0, sizeof(float) * WEIGHTS * FLOATS);
  for (int64_t l = 0; l < count; l++) {
    float kernel[WEIGHTS];
    widen_run(storage, WEIGHTS, element_at(weights, storage, weight_at(w, input, output + l)), kernel);
    for (int i = 0; i < WEIGHTS; i++) kernels[i][l] = kernel[w->turned ? WEIGHTS - 1 - i : i];
  }
}

static void kernel_at_points(const float kernel[WEIGHTS][FLOATS], int64_t point, float *u) {
  floats half[POINTS][KERNEL_SIZE];
  for (int j = 0; j < KERNEL_SIZE; j++) {
    floats w[KERNEL_SIZE], points[POINTS];
    for (int i = 0; i < KERNEL_SIZE; i++) w[i] = load(kernel[i * KERNEL_SIZE + j]);
    kernel_line(w, points);
    for (int i = 0; i < POINTS; i++) half[i][j] = points[i];
  }
  for (int i = 0; i < POINTS; i++) {
    floats points[POINTS];
    kernel_line(half[i], points);
    for (int j = 0; j < POINTS; j++) store(u + (i * POINTS + j) * point, points[j]);
  }
}

/* Loads several kernels before it transforms the first: vectors are written one element at a time, and
 * reading one right after that is slow. */
INLINE void weights_at_points(neap_dtype storage, const struct winograd_weights *w, const void *weights,
                              float *u) {
  for (int64_t o = 0; o < whole_lanes(w->output_count); o += FLOATS)
    for (int64_t i = 0; i < whole_lanes(w->input_count); i += WINOGRAD_LANES) {
      _Alignas(64) float kernels[WINOGRAD_LANES][WEIGHTS][FLOATS];
      for (int64_t k = 0; k < WINOGRAD_LANES; k++)
        load_kernels(storage, w, weights, w->input + i + k, w->output + o, kernels[k]);
      float *to = u + i * w->matrix.row + column_offset(&w->matrix, o);
      for (int64_t k = 0; k < WINOGRAD_LANES; k++)
        kernel_at_points(kernels[k], w->matrix.point, to + k * w->matrix.row);
    }
}

void ISA(winograd_weights)(const struct winograd_weights *w, const void *weights, float *u) {
  BY_STORAGE(w->storage, weights_at_points, w, weights, u);
}

static void kernel_gradient_of_points(const float *m, int64_t point, floats *kernel) {
  floats half[KERNEL_SIZE][POINTS];
  for (int j = 0; j < POINTS; j++) {
    floats points[POINTS], sums[KERNEL_SIZE];
    for (int i = 0; i < POINTS; i++) points[i] = load(m + (i * POINTS + j) * point);
    kernel_gradient_line(points, sums);
    for (int i = 0; i < KERNEL_SIZE; i++) half[i][j] = sums[i];
  }
  for (int i = 0; i < KERNEL_SIZE; i++) kernel_gradient_line(half[i], kernel + i * KERNEL_SIZE);
}

void ISA(winograd_weights_gradient)(const struct winograd_weights *w, const float *m, bool add, float *dw) {
  const int64_t inputs = least(w->input_count, w->inputs - w->input);
  for (int64_t o = 0; o < w->output_count; o += FLOATS)
    for (int64_t i = 0; i < inputs; i++) {
      floats kernel[WEIGHTS];
      kernel_gradient_of_points(m + i * w->matrix.row + column_offset(&w->matrix, o), w->matrix.point,
                                kernel);
      const int64_t count = least(FLOATS, w->outputs - w->output - o);
      for (int64_t l = 0; l < count; l++) {
        float *to = dw + weight_at(w, w->input + i, w->output + o + l);
        for (int k = 0; k < WEIGHTS; k++) to[k] = add ? to[k] + kernel[k][l] : kernel[k][l];
      }
    }
}
