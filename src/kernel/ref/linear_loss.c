/* A linear layer followed by cross-entropy: row by row. */
#include <math.h>
#include <string.h>

#include "kernel/ref/ref.h"

static bool counts(const struct loss_attributes *a, int32_t label, int64_t classes) {
  return label >= 0 && label < classes && label != a->ignored;
}

/* Returns the label of a row of this part. */
static int32_t label_of(const struct kernel *kernel, const int32_t *labels, int64_t row) {
  const int64_t times = ATTRIBUTES->loss.times, r = ATTRIBUTES->loss.first + row;
  const int64_t count = times > 0 ? kernel_input(kernel, LOSS_LABELS)->elements / times : 1;
  return labels[times > 0 ? r % count * times + r / count : r];
}

static double count_labels(const struct kernel *kernel, const int32_t *labels) {
  double counted = 0;
  FOR(i, kernel_input(kernel, LOSS_LABELS)->elements)
  counted += counts(&ATTRIBUTES->loss, labels[i], kernel_input(kernel, LOSS_WEIGHTS)->dims[0]);
  return counted;
}

static double logit(const struct kernel *kernel, const double *x, void *const *in, int64_t c,
                    const struct run_context *context) {
  const struct tensor *w = kernel_input(kernel, LOSS_WEIGHTS);
  const int64_t width = w->dims[1];
  double sum = in[LOSS_BIAS] != NULL ? ((const double *)in[LOSS_BIAS])[c] : 0, part[WEIGHTS_PART];
  for (int64_t first = 0; first < width; first += WEIGHTS_PART) {
    const int64_t length = part_length(first, width);
    const double *weights = weights_at(w, in[LOSS_WEIGHTS], c * width + first, length, part, context);
    FOR(k, length) sum += x[first + k] * weights[k];
  }
  return sum;
}

static double wanted(const struct loss_attributes *a, int64_t classes, int64_t c, int32_t label) {
  return (c == label ? 1 - (double)a->smoothing : 0) + (double)a->smoothing / (double)classes;
}

static RUN(loss_of_all) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, LOSS_X), *w = kernel_input(kernel, LOSS_WEIGHTS);
  const struct loss_attributes *a = &ATTRIBUTES->loss;
  const int64_t width = x->dims[1], classes = w->dims[0];
  const double counted = count_labels(kernel, in[LOSS_LABELS]);
  double loss = in[LOSS_BEFORE] != NULL ? *(const double *)in[LOSS_BEFORE] : 0;
  int32_t correct = in[LOSS_CORRECT_BEFORE] != NULL ? *(const int32_t *)in[LOSS_CORRECT_BEFORE] : 0;
  FOR(n, x->dims[0]) {
    const double *row = (const double *)in[LOSS_X] + n * width;
    double highest = -INFINITY, sum = 0, total = 0;
    int64_t best = 0;
    ((double *)out[2])[n] = 0;
    const int32_t label = label_of(kernel, in[LOSS_LABELS], n);
    if (!counts(a, label, classes)) continue;
    FOR(c, classes) {
      const double l = logit(kernel, row, in, c, context);
      if (l > highest) best = c, highest = l;
    }
    FOR(c, classes) sum += exp(logit(kernel, row, in, c, context) - highest);
    const double log_sum = highest + log(sum);
    FOR(c, classes)
    total += wanted(a, classes, c, label) * (log_sum - logit(kernel, row, in, c, context));
    loss += total / counted;
    correct += best == label;
    ((double *)out[2])[n] = log_sum;
  }
  *(double *)out[0] = loss;
  *(int32_t *)out[1] = correct;
  return NEAP_OK;
}

static RUN(gradients_of_all) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, LOSS_X), *w = kernel_input(kernel, LOSS_WEIGHTS);
  const struct loss_attributes *a = &ATTRIBUTES->loss;
  const int64_t width = x->dims[1], classes = w->dims[0];
  const double *log_sum = in[LOSS_BACK_LOG_SUM],
               dloss = in[LOSS_BACK_GRADIENT] != NULL ? *(const double *)in[LOSS_BACK_GRADIENT] : 1,
               share = dloss / count_labels(kernel, in[LOSS_LABELS]);
  double *dw = a->fixed ? NULL : out[1], *dbias = in[LOSS_BIAS] != NULL ? out[a->fixed ? 1 : 2] : NULL,
         part[WEIGHTS_PART];
  if (dw != NULL) memset(dw, 0, (size_t)w->elements * sizeof *dw);
  if (dbias != NULL) memset(dbias, 0, (size_t)classes * sizeof *dbias);
  FOR(n, x->dims[0]) {
    const double *row = (const double *)in[LOSS_X] + n * width;
    double *dx = (double *)out[0] + n * width;
    FOR(k, width) dx[k] = 0;
    const int32_t label = label_of(kernel, in[LOSS_LABELS], n);
    if (!counts(a, label, classes)) continue;
    FOR(c, classes) {
      const double p = exp(logit(kernel, row, in, c, context) - log_sum[n]),
                   d = share * (p - wanted(a, classes, c, label));
      for (int64_t first = 0; first < width; first += WEIGHTS_PART) {
        const int64_t length = part_length(first, width);
        const double *weights = weights_at(w, in[LOSS_WEIGHTS], c * width + first, length, part, context);
        FOR(k, length) dx[first + k] += d * weights[k];
      }
      for (int64_t k = 0; dw != NULL && k < width; k++) dw[c * width + k] += d * row[k];
      if (dbias != NULL) dbias[c] += d;
    }
  }
  return NEAP_OK;
}

/* Reads weights on disk into the workspace. */
static neap_status run_with_weights(kernel_run *run, const struct kernel *kernel, void *const *in,
                                    void *const *out, void *workspace, const struct run_context *context) {
  enum { INPUTS = LOSS_BACK_GRADIENT + 1 };
  const struct tensor *w = kernel_input(kernel, LOSS_WEIGHTS);
  void *given[INPUTS] = {NULL};
  if (!is_read_by_rows(w)) return run(kernel, in, out, workspace, context);
  memcpy(given, in, (size_t)kernel_node(kernel)->input_count * sizeof *given);
  given[LOSS_WEIGHTS] = workspace;
  TRY(context->rows.read(context->rows.context, w, 0, w->dims[0], workspace));
  return run(kernel, given, out, NULL, context);
}

RUN(run_linear_cross_entropy) { return run_with_weights(loss_of_all, kernel, in, out, workspace, context); }
RUN(run_linear_cross_entropy_backward) {
  return run_with_weights(gradients_of_all, kernel, in, out, workspace, context);
}
