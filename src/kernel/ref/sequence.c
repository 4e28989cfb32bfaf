/* Positions and lengths of sequences. */
#include <math.h>

#include "kernel/ref/ref.h"

RUN(run_positions) {
  UNUSED;
  const struct positions_attributes *a = &ATTRIBUTES->positions;
  const int64_t half = a->width / 2;
  FOR(t, a->length) FOR(d, half) {
    const double rate = half > 1 ? pow(10000, -(double)d / ((double)half - 1)) : 1,
                 angle = ((double)t + (double)a->first) * rate;
    double *one = (double *)out[0] + t * a->width + d;
    one[0] = sin(angle);
    one[half] = cos(angle);
  }
  return NEAP_OK;
}

RUN(run_sequence_mask) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0);
  const int64_t sequence = x->elements / x->dims[0], row = sequence / x->dims[1];
  FOR(i, x->elements) {
    const int32_t length = ((const int32_t *)in[1])[i / sequence];
    ((double *)out[0])[i] = i % sequence / row < length ? ((const double *)in[0])[i] : 0;
  }
  return NEAP_OK;
}

RUN(run_sequence_lengths) {
  UNUSED;
  const struct tensor *ids = kernel_input(kernel, 0);
  FOR(n, ids->dims[0]) {
    const int32_t *row = (const int32_t *)in[0] + n * ids->dims[1];
    int32_t length = 0;
    while (length < ids->dims[1] && row[length] >= 0) length++;
    ((int32_t *)out[0])[n] = length;
  }
  return NEAP_OK;
}
