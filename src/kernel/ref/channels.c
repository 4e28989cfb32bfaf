/* Operators across channels: concatenation, slices, local response normalisation. */
#include <math.h>
#include <string.h>

#include "kernel/ref/ref.h"

RUN(run_concat) {
  UNUSED;
  const struct shape sy = shape_of(kernel_output(kernel, 0));
  double *y = out[0];
  int64_t first = 0;
  FOR(part, kernel_node(kernel)->input_count) {
    const struct shape sx = shape_of(kernel_input(kernel, (int32_t)part));
    const double *x = in[part];
    FOR(n, sx.n) FOR(c, sx.c) FOR(h, sx.h) FOR(w, sx.w) y[at(sy, n, first + c, h, w)] = x[at(sx, n, c, h, w)];
    first += sx.c;
  }
  return NEAP_OK;
}

RUN(run_slice) {
  UNUSED;
  const struct shape sx = shape_of(kernel_input(kernel, 0)), sy = shape_of(kernel_output(kernel, 0));
  const double *x = in[0], *addend = ATTRIBUTES->addend ? in[1] : NULL;
  double *y = out[0];
  FOR(n, sy.n) FOR(c, sy.c) FOR(h, sy.h) FOR(w, sy.w) {
    const int64_t i = at(sy, n, c, h, w);
    y[i] = x[at(sx, n, ATTRIBUTES->first + c, h, w)] + (addend != NULL ? addend[i] : 0);
  }
  return NEAP_OK;
}

RUN(run_slice_backward) {
  UNUSED;
  const struct shape sx = shape_of(kernel_output(kernel, 0)), sy = shape_of(kernel_input(kernel, 0));
  const double *dy = in[0];
  double *dx = out[0];
  memset(dx, 0, (size_t)kernel_output(kernel, 0)->elements * sizeof *dx);
  FOR(n, sy.n)
  FOR(c, sy.c) FOR(h, sy.h) FOR(w, sy.w) dx[at(sx, n, ATTRIBUTES->first + c, h, w)] = dy[at(sy, n, c, h, w)];
  return NEAP_OK;
}

/* The sums of Krizhevsky et al. 2012, section 3.3, with alpha over the size of the window, of one pixel's
 * channels, which lie `stride` apart. */
static double response(const struct attributes *a, const double *x, int64_t channels, int64_t stride,
                       int64_t c) {
  double sum = 0;
  for (int64_t j = c - a->size / 2; j <= c + (a->size - 1) / 2; j++)
    if (j >= 0 && j < channels) sum += x[j * stride] * x[j * stride];
  return (double)a->k + (double)a->alpha / (double)a->size * sum;
}

RUN(run_local_response_norm) {
  UNUSED;
  const struct shape s = shape_of(kernel_input(kernel, 0));
  double *x = in[0], *y = out[0], *power = workspace;
  FOR(n, s.n) FOR(p, s.h * s.w) {
    const int64_t first = n * s.c * s.h * s.w + p, stride = s.h * s.w;
    FOR(c, s.c) power[c] = pow(response(ATTRIBUTES, x + first, s.c, stride, c), -(double)ATTRIBUTES->beta);
    FOR(c, s.c) y[first + c * stride] = x[first + c * stride] * power[c];
  }
  return NEAP_OK;
}

/* dx_i = dy_i s_i^-beta - 2 alpha beta / size * x_i * sum of dy_j x_j s_j^(-beta - 1) over the j whose window
 * holds i. */
RUN(run_local_response_norm_backward) {
  UNUSED;
  const struct attributes *a = ATTRIBUTES;
  const struct shape s = shape_of(kernel_input(kernel, 0));
  const double *x = in[0], *dy = in[1], beta = (double)a->beta;
  double *dx = out[0], *direct = workspace, *share = direct + s.c;
  FOR(n, s.n) FOR(p, s.h * s.w) {
    const int64_t first = n * s.c * s.h * s.w + p, stride = s.h * s.w;
    FOR(c, s.c) {
      const double sum = response(a, x + first, s.c, stride, c), g = dy[first + c * stride];
      direct[c] = g * pow(sum, -beta);
      share[c] = g * x[first + c * stride] * pow(sum, -beta - 1);
    }
    FOR(c, s.c) {
      double sum = 0;
      for (int64_t j = c - (a->size - 1) / 2; j <= c + a->size / 2; j++)
        if (j >= 0 && j < s.c) sum += share[j];
      const double factor = 2 * (double)a->alpha * beta / (double)a->size;
      dx[first + c * stride] = direct[c] - factor * x[first + c * stride] * sum;
    }
  }
  return NEAP_OK;
}
