/* Operators of pixels: crop, resize, adaptive pooling; images of bytes. */
#include <math.h>
#include <string.h>

#include "kernel/ref/ref.h"

static void clear(const struct tensor *t, double *values) {
  memset(values, 0, (size_t)t->elements * sizeof *values);
}

/* ---- Crop ---- */

RUN(run_crop) {
  UNUSED;
  const struct shape sx = shape_of(kernel_input(kernel, 0)), sy = shape_of(kernel_output(kernel, 0));
  const double *x = in[0];
  double *y = out[0];
  FOR(n, sy.n)
  FOR(c, sy.c)
  FOR(i, sy.h)
  FOR(j, sy.w) y[at(sy, n, c, i, j)] = x[at(sx, n, c, i + ATTRIBUTES->crop.top, j + ATTRIBUTES->crop.left)];
  return NEAP_OK;
}

RUN(run_crop_backward) {
  UNUSED;
  const struct shape sx = shape_of(kernel_output(kernel, 0)), sy = shape_of(kernel_input(kernel, 0));
  const double *dy = in[0], *addend = in[1];
  double *dx = out[0];
  FOR(i, kernel_output(kernel, 0)->elements) dx[i] = addend != NULL ? addend[i] : 0;
  FOR(n, sy.n)
  FOR(c, sy.c)
  FOR(i, sy.h)
  FOR(j, sy.w)
  dx[at(sx, n, c, i + ATTRIBUTES->crop.top, j + ATTRIBUTES->crop.left)] += dy[at(sy, n, c, i, j)];
  return NEAP_OK;
}

/* ---- Resize ---- */

/* Returns the share of pixel p of `from` in pixel i of `to`, on one axis: hat functions around the place
 * where it is read; beyond the last pixel's centre the last pixel is read. */
static double resize_share(int64_t i, int64_t p, int64_t from, int64_t to, bool align) {
  double place;
  if (align)
    place = to > 1 ? (double)(i * (from - 1)) / (double)(to - 1) : 0;
  else
    place = fmax(((double)i + 0.5) * (double)from / (double)to - 0.5, 0);
  place = fmin(place, (double)(from - 1));
  return fmax(1 - fabs(place - (double)p), 0);
}

/* Visits each pixel of x that goes into a pixel of y, the resized one: where they are, and the share. */
static void walk_resize(struct shape x, struct shape y, bool align,
                        void (*visit)(const double *from, double *to, int64_t x, int64_t y, double share),
                        const double *from, double *to) {
  FOR(i, y.h) FOR(j, y.w) FOR(r, x.h) FOR(s, x.w) {
    const double share = resize_share(i, r, x.h, y.h, align) * resize_share(j, s, x.w, y.w, align);
    if (share > 0) FOR(n, y.n) FOR(c, y.c) visit(from, to, at(x, n, c, r, s), at(y, n, c, i, j), share);
  }
}

static void visit_resize(const double *from, double *to, int64_t x, int64_t y, double share) {
  to[y] += share * from[x];
}

static void visit_resize_backward(const double *from, double *to, int64_t x, int64_t y, double share) {
  to[x] += share * from[y];
}

RUN(run_resize) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0), *y = kernel_output(kernel, 0);
  clear(y, out[0]);
  walk_resize(shape_of(x), shape_of(y), ATTRIBUTES->resize.align_corners, visit_resize, in[0], out[0]);
  return NEAP_OK;
}

RUN(run_resize_backward) {
  UNUSED;
  const struct tensor *dx = kernel_output(kernel, 0), *dy = kernel_input(kernel, 0);
  clear(dx, out[0]);
  walk_resize(shape_of(dx), shape_of(dy), ATTRIBUTES->resize.align_corners, visit_resize_backward, in[0],
              out[0]);
  return NEAP_OK;
}

/* ---- Adaptive average pooling ---- */

static int64_t region_begin(int64_t i, int64_t from, int64_t to) { return i * from / to; }
static int64_t region_size(int64_t i, int64_t from, int64_t to) {
  return ((i + 1) * from + to - 1) / to - region_begin(i, from, to);
}

/* clang-format off */
#define FOR_REGIONS(sx, sy)                                                                                  \
  FOR(n, sy.n) FOR(c, sy.c) FOR(i, sy.h) FOR(j, sy.w)                                                         \
  FOR(r, region_size(i, sx.h, sy.h)) FOR(s, region_size(j, sx.w, sy.w))
/* clang-format on */

static double region_share(struct shape sx, struct shape sy, int64_t i, int64_t j) {
  return 1 / (double)(region_size(i, sx.h, sy.h) * region_size(j, sx.w, sy.w));
}

static int64_t region_pixel(struct shape sx, struct shape sy, int64_t n, int64_t c, int64_t i, int64_t j,
                            int64_t r, int64_t s) {
  return at(sx, n, c, region_begin(i, sx.h, sy.h) + r, region_begin(j, sx.w, sy.w) + s);
}

RUN(run_adaptive_average_pool) {
  UNUSED;
  const struct shape sx = shape_of(kernel_input(kernel, 0)), sy = shape_of(kernel_output(kernel, 0));
  const double *x = in[0];
  double *y = out[0];
  clear(kernel_output(kernel, 0), y);
  FOR_REGIONS(sx, sy)
  y[at(sy, n, c, i, j)] += region_share(sx, sy, i, j) * x[region_pixel(sx, sy, n, c, i, j, r, s)];
  return NEAP_OK;
}

RUN(run_adaptive_average_pool_backward) {
  UNUSED;
  const struct shape sx = shape_of(kernel_output(kernel, 0)), sy = shape_of(kernel_input(kernel, 0));
  const double *dy = in[0];
  double *dx = out[0];
  clear(kernel_output(kernel, 0), dx);
  FOR_REGIONS(sx, sy)
  dx[region_pixel(sx, sy, n, c, i, j, r, s)] += region_share(sx, sy, i, j) * dy[at(sy, n, c, i, j)];
  return NEAP_OK;
}

/* ---- Bytes ---- */

/* Computes in f32, as bytes are normalised everywhere, then rounds to the output's type, which was
 * widened. */
RUN(run_pixels) {
  UNUSED;
  const struct pixels_attributes *a = &ATTRIBUTES->pixels;
  const struct shape s = shape_of(kernel_output(kernel, 0));
  FOR(n, s.n) FOR(c, s.c) FOR(i, s.h) FOR(j, s.w) {
    const int32_t *window = (const int32_t *)in[1] + 4 * n;
    const bool inside = i >= window[0] && i < window[1] && j >= window[2] && j < window[3];
    const float byte = (float)((const uint8_t *)in[0])[at(s, n, c, i, j)];
    double stored; /* room for any type */
    dtype_set_real((neap_dtype)a->dtype, &stored, 0,
                   inside ? (double)((byte - a->mean[c]) / a->deviation[c]) : 0);
    ((double *)out[0])[at(s, n, c, i, j)] = dtype_real((neap_dtype)a->dtype, &stored, 0);
  }
  return NEAP_OK;
}
