/* Operators across channels: concatenation, slices, local response normalisation. */
#include <math.h>
#include <string.h>

#include "kernel/ref/ref.h"

/* A tensor around one axis: elements before it, of it, after it. */
struct axis {
  int64_t outer, count, inner;
};

static struct axis axis_of(const struct tensor *t, int64_t axis) {
  struct axis a = {1, t->dims[axis], 1};
  FOR(i, axis) a.outer *= t->dims[i];
  for (int64_t i = axis + 1; i < t->rank; i++) a.inner *= t->dims[i];
  return a;
}

RUN(run_concat) {
  UNUSED;
  const int64_t axis = ATTRIBUTES->part.axis;
  const struct axis whole = axis_of(kernel_output(kernel, 0), axis);
  double *y = out[0];
  int64_t first = 0;
  FOR(part, kernel_node(kernel)->input_count) {
    const struct axis a = axis_of(kernel_input(kernel, (int32_t)part), axis);
    const double *x = in[part];
    FOR(o, a.outer)
    FOR(c, a.count)
    FOR(i, a.inner) y[(o * whole.count + first + c) * whole.inner + i] = x[(o * a.count + c) * a.inner + i];
    first += a.count;
  }
  return NEAP_OK;
}

RUN(run_slice) {
  UNUSED;
  const struct part_attributes *p = &ATTRIBUTES->part;
  const struct axis whole = axis_of(kernel_input(kernel, 0), p->axis);
  const double *x = in[0], *addend = in[1];
  double *y = out[0];
  FOR(o, whole.outer) FOR(c, p->count) FOR(i, whole.inner) {
    const int64_t to = (o * p->count + c) * whole.inner + i;
    y[to] = x[(o * whole.count + p->first + c) * whole.inner + i] + (addend != NULL ? addend[to] : 0);
  }
  return NEAP_OK;
}

RUN(run_slice_backward) {
  UNUSED;
  const struct part_attributes *p = &ATTRIBUTES->part;
  const struct axis whole = axis_of(kernel_output(kernel, 0), p->axis);
  const double *dy = in[0], *addend = in[1];
  double *dx = out[0];
  FOR(i, kernel_output(kernel, 0)->elements) dx[i] = addend != NULL ? addend[i] : 0;
  FOR(o, whole.outer)
  FOR(c, p->count)
  FOR(i, whole.inner)
  dx[(o * whole.count + p->first + c) * whole.inner + i] += dy[(o * p->count + c) * whole.inner + i];
  return NEAP_OK;
}

/* Returns the element that stands at a place, by walking there from the ends of the axis. */
static int64_t walk_to(int64_t place, int64_t size, int64_t border) {
  while (place < 0 || place >= size) {
    if (border == BORDER_CONSTANT) return -1;
    if (border == BORDER_EDGE || size == 1)
      place = place < 0 ? 0 : size - 1;
    else if (border == BORDER_WRAP)
      place += place < 0 ? size : -size;
    else
      place = place < 0 ? -place : 2 * (size - 1) - place;
  }
  return place;
}

/* Visits each element that is taken: its place in x, or -1, and in y. */
static void walk_taken(const struct take_attributes *t, struct axis whole,
                       void (*visit)(const double *from, double *to, int64_t x, int64_t y),
                       const double *from, double *to) {
  FOR(o, whole.outer) FOR(c, t->count) FOR(i, whole.inner) {
    const struct take_places p = t->places;
    const int64_t place = (int64_t)floorl((long double)(p.first + c * p.step) / (long double)p.divisor),
                  e = walk_to(place, whole.count, p.border);
    visit(from, to, e < 0 ? -1 : (o * whole.count + e) * whole.inner + i,
          (o * t->count + c) * whole.inner + i);
  }
}

static void take_element(const double *from, double *to, int64_t x, int64_t y) {
  if (x >= 0) to[y] = from[x];
}

static void give_element(const double *from, double *to, int64_t x, int64_t y) {
  if (x >= 0) to[x] += from[y];
}

RUN(run_take) {
  UNUSED;
  const struct take_attributes *t = &ATTRIBUTES->take;
  FOR(i, kernel_output(kernel, 0)->elements)((double *)out[0])[i] = (double)t->value;
  walk_taken(t, axis_of(kernel_input(kernel, 0), t->axis), take_element, in[0], out[0]);
  return NEAP_OK;
}

RUN(run_take_backward) {
  UNUSED;
  const struct take_attributes *t = &ATTRIBUTES->take;
  FOR(i, kernel_output(kernel, 0)->elements)((double *)out[0])[i] = 0;
  walk_taken(t, axis_of(kernel_output(kernel, 0), t->axis), give_element, in[0], out[0]);
  return NEAP_OK;
}

/* Returns the sum of Krizhevsky et al. 2012, section 3.3, with alpha divided by the size of the window, for
 * one pixel's channels, which are `stride` apart. */
static double response(const struct response_attributes *a, const double *x, int64_t channels, int64_t stride,
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
    FOR(c, s.c)
    power[c] =
        pow(response(&ATTRIBUTES->response, x + first, s.c, stride, c), -(double)ATTRIBUTES->response.beta);
    FOR(c, s.c) y[first + c * stride] = x[first + c * stride] * power[c];
  }
  return NEAP_OK;
}

/* dx_i = dy_i s_i^-beta - 2 alpha beta / size * x_i * sum of dy_j x_j s_j^(-beta - 1) over the j whose window
 * holds i. */
RUN(run_local_response_norm_backward) {
  UNUSED;
  const struct response_attributes *a = &ATTRIBUTES->response;
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
