/* Convolution over time by heads: plain loops. */
#include <string.h>

#include "kernel/ref/ref.h"

/* Visits every product: of row t of y with row `row` of x in channel c, and of the weight `weight`. */
typedef void product(void *const *in, void *const *out, int64_t y, int64_t x, int64_t weight);

static void walk(const struct kernel *kernel, product *visit, void *const *in, void *const *out) {
  const struct tensor *x = kernel_input(kernel, 0), *w = kernel_input(kernel, 1);
  const int64_t rows = x->dims[1], first = ATTRIBUTES->sequence_conv.first, times = rows - first,
                channels = x->dims[2], heads = w->dims[w->rank - 2], taps = w->dims[w->rank - 1],
                padding = ATTRIBUTES->sequence_conv.padding - first;
  FOR(n, x->dims[0]) FOR(t, times) FOR(c, channels) FOR(k, taps) {
    const int64_t row = t + k - padding, h = c / (channels / heads),
                  of_time = w->rank == 4 ? (n * times + t) * heads * taps : 0;
    if (row >= 0 && row < rows)
      visit(in, out, (n * times + t) * channels + c, (n * rows + row) * channels + c, of_time + h * taps + k);
  }
}

static void visit_forward(void *const *in, void *const *out, int64_t y, int64_t x, int64_t weight) {
  ((double *)out[0])[y] += ((const double *)in[1])[weight] * ((const double *)in[0])[x];
}

static void visit_weights(void *const *in, void *const *out, int64_t y, int64_t x, int64_t weight) {
  ((double *)out[1])[weight] += ((const double *)in[2])[y] * ((const double *)in[0])[x];
}

static void visit_data(void *const *in, void *const *out, int64_t y, int64_t x, int64_t weight) {
  ((double *)out[0])[x] += ((const double *)in[2])[y] * ((const double *)in[1])[weight];
}

static void clear(const struct kernel *kernel, void *const *out, int32_t i) {
  memset(out[i], 0, (size_t)kernel_output(kernel, i)->elements * sizeof(double));
}

RUN(run_sequence_conv) {
  UNUSED;
  clear(kernel, out, 0);
  walk(kernel, visit_forward, in, out);
  return NEAP_OK;
}

/* dw comes first, as dx may be in place of x. */
RUN(run_sequence_conv_backward) {
  UNUSED;
  if (kernel_node(kernel)->output_count > 1) {
    clear(kernel, out, 1);
    walk(kernel, visit_weights, in, out);
  }
  clear(kernel, out, 0);
  walk(kernel, visit_data, in, out);
  return NEAP_OK;
}
