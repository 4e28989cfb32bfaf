/* Mixtures of experts by their formulas. */
#include <math.h>
#include <stdlib.h>

#include "kernel/ref/ref.h"
#include "kernel/router.h"

/* The softmax over all experts of a row. */
static void softmax(const double *scores, int64_t experts, double *p) {
  double most = scores[0], sum = 0;
  FOR(e, experts) most = scores[e] > most ? scores[e] : most;
  FOR(e, experts) sum += p[e] = exp(scores[e] - most);
  FOR(e, experts) p[e] /= sum;
}

RUN(run_route) {
  UNUSED;
  const struct route_attributes *a = &ATTRIBUTES->route;
  const int64_t rows = kernel_input(kernel, 0)->dims[0], experts = kernel_input(kernel, 0)->dims[1];
  int32_t *chosen = malloc((size_t)(rows * a->count) * sizeof *chosen);
  double *p = malloc((size_t)experts * sizeof *p);
  if (chosen == NULL || p == NULL) {
    free(chosen);
    free(p);
    return neap_fail(NEAP_OUT_OF_MEMORY, "Route: out of memory");
  }
  FOR(r, rows) {
    const double *scores = (const double *)in[0] + r * experts;
    double *weights = (double *)out[0] + r * a->count, sum = 0;
    route_row(scores, experts, a->count, a->normalised, chosen + r * a->count, weights);
    softmax(scores, experts, p);
    FOR(i, a->count) sum += p[chosen[r * a->count + i]];
    FOR(i, a->count) weights[i] = p[chosen[r * a->count + i]] / (a->normalised ? sum : 1);
  }
  route_sort(chosen, rows, a->count, experts, out[1], out[2], out[3]);
  free(chosen);
  free(p);
  return NEAP_OK;
}

/* By the derivative of each weight by each score. */
RUN(run_route_backward) {
  UNUSED;
  const struct route_attributes *a = &ATTRIBUTES->route;
  const int64_t rows = kernel_input(kernel, 0)->dims[0], experts = kernel_input(kernel, 0)->dims[1];
  int32_t *chosen = malloc((size_t)a->count * sizeof *chosen);
  double *p = malloc((size_t)(experts + a->count) * sizeof *p);
  if (chosen == NULL || p == NULL) {
    free(chosen);
    free(p);
    return neap_fail(NEAP_OUT_OF_MEMORY, "RouteBackward: out of memory");
  }
  FOR(r, rows) {
    const double *scores = (const double *)in[0] + r * experts,
                 *dweights = (const double *)in[1] + r * a->count;
    double *dscores = (double *)out[0] + r * experts, sum = 0;
    route_row(scores, experts, a->count, a->normalised, chosen, p + experts);
    softmax(scores, experts, p);
    FOR(i, a->count) sum += p[chosen[i]];
    FOR(e, experts) {
      double of_softmax = 0, in_sum = 0;
      FOR(i, a->count) in_sum += chosen[i] == e;
      FOR(i, a->count) {
        const double w = p[chosen[i]], dw = w * ((chosen[i] == e) - p[e]); /* d softmax_i / d score_e */
        const double dsum = p[e] * (in_sum - sum);
        of_softmax += dweights[i] * (a->normalised ? (dw * sum - w * dsum) / (sum * sum) : dw);
      }
      dscores[e] = of_softmax;
    }
  }
  free(chosen);
  free(p);
  return NEAP_OK;
}

/* The rows [first, end) of an expert. */
struct own_rows {
  int64_t first, end;
};
static struct own_rows rows_of(const int32_t *ends, int64_t expert) {
  return (struct own_rows){expert > 0 ? ends[expert - 1] : 0, ends[expert]};
}

RUN(run_expert_linear) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, EXPERT_X), *w = kernel_input(kernel, EXPERT_WEIGHTS);
  const int64_t experts = kernel_input(kernel, EXPERT_ENDS)->dims[0], outputs = w->dims[0] / experts,
                width = x->dims[1];
  const double *a = in[EXPERT_X];
  double *y = out[0], part[WEIGHTS_PART];
  FOR(e, experts) FOR(o, outputs) {
    const struct own_rows own = rows_of(in[EXPERT_ENDS], e);
    for (int64_t n = own.first; n < own.end; n++) y[n * outputs + o] = 0;
    for (int64_t first = 0; first < width && own.end > own.first; first += WEIGHTS_PART) {
      const int64_t length = part_length(first, width);
      const double *b =
          weights_at(w, in[EXPERT_WEIGHTS], (e * outputs + o) * width + first, length, part, context);
      for (int64_t n = own.first; n < own.end; n++)
        FOR(k, length) y[n * outputs + o] += a[n * width + first + k] * b[k];
    }
  }
  return NEAP_OK;
}

RUN(run_expert_linear_backward_data) {
  UNUSED;
  const struct tensor *w = kernel_input(kernel, 0), *dy = kernel_input(kernel, 1);
  const int64_t experts = kernel_input(kernel, EXPERT_ENDS)->dims[0], outputs = dy->dims[1],
                width = w->dims[1];
  const double *b = in[1];
  double *dx = out[0], part[WEIGHTS_PART];
  FOR(i, dy->dims[0] * width) dx[i] = 0;
  FOR(e, experts) FOR(o, outputs) {
    const struct own_rows own = rows_of(in[EXPERT_ENDS], e);
    for (int64_t first = 0; first < width && own.end > own.first; first += WEIGHTS_PART) {
      const int64_t length = part_length(first, width);
      const double *a = weights_at(w, in[0], (e * outputs + o) * width + first, length, part, context);
      for (int64_t n = own.first; n < own.end; n++)
        FOR(k, length) dx[n * width + first + k] += b[n * outputs + o] * a[k];
    }
  }
  return NEAP_OK;
}

RUN(run_expert_linear_backward_weights) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0), *dy = kernel_input(kernel, 1);
  const int64_t experts = kernel_input(kernel, EXPERT_ENDS)->dims[0], outputs = dy->dims[1],
                width = x->dims[1];
  const double *a = in[0], *b = in[1];
  double *dw = out[0];
  FOR(e, experts) FOR(o, outputs) FOR(k, width) {
    const struct own_rows own = rows_of(in[EXPERT_ENDS], e);
    double sum = 0;
    for (int64_t n = own.first; n < own.end; n++) sum += b[n * outputs + o] * a[n * width + k];
    dw[(e * outputs + o) * width + k] = sum;
  }
  return NEAP_OK;
}

RUN(run_expert_sum) {
  UNUSED;
  const struct tensor *weights = kernel_input(kernel, SUM_WEIGHTS);
  const int64_t rows = weights->dims[0], count = weights->dims[1],
                width = kernel_input(kernel, SUM_Y)->dims[1];
  const double *y = in[SUM_Y], *w = in[SUM_WEIGHTS];
  const int32_t *places = in[SUM_PLACES];
  FOR(r, rows) FOR(d, width) {
    double sum = 0;
    FOR(i, count) sum += w[r * count + i] * y[places[r * count + i] * width + d];
    ((double *)out[0])[r * width + d] = sum;
  }
  return NEAP_OK;
}

RUN(run_expert_sum_backward) {
  UNUSED;
  const struct tensor *weights = kernel_input(kernel, SUM_WEIGHTS);
  const int64_t count = weights->dims[1], width = kernel_input(kernel, SUM_Y)->dims[1];
  const double *y = in[SUM_Y], *w = in[SUM_WEIGHTS], *dsums = in[SUM_GRADIENT];
  const int32_t *places = in[SUM_PLACES];
  double *dy = out[0], *dw = out[1];
  FOR(i, weights->elements) {
    const double *own = dsums + i / count * width;
    dw[i] = 0;
    FOR(d, width) {
      dw[i] += own[d] * y[places[i] * width + d];
      dy[places[i] * width + d] = w[i] * own[d];
    }
  }
  return NEAP_OK;
}
