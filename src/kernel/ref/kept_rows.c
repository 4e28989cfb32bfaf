/* Rows of sequences that a backward pass reads alone. */
#include "op/kept_rows.h"

#include <string.h>

#include "base/random.h"
#include "kernel/random_stream.h"
#include "kernel/ref/ref.h"

RUN(run_kept_rows) {
  UNUSED;
  uint32_t words[4];
  random_philox(context->seed ^ random_name(RANDOM_NO_NAME, kernel_node(kernel)->name),
                kept_rows_stream(context->step), 0, words);
  kept_rows_find(&ATTRIBUTES->kept_rows, words[0], out[0]);
  return NEAP_OK;
}

RUN(run_gather_rows) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, ROWS_X);
  const int64_t kept = kernel_input(kernel, ROWS_LIST)->elements, length = x->dims[1],
                row = x->elements / (x->dims[0] * length);
  const int32_t *rows = in[ROWS_LIST];
  FOR(n, x->dims[0]) FOR(i, kept) {
    memcpy((double *)out[0] + (n * kept + i) * row, (const double *)in[ROWS_X] + (n * length + rows[i]) * row,
           (size_t)row * sizeof(double));
  }
  return NEAP_OK;
}

RUN(run_scatter_rows) {
  UNUSED;
  const struct tensor *y = kernel_output(kernel, 0);
  const int64_t kept = kernel_input(kernel, ROWS_LIST)->elements, length = y->dims[1],
                row = y->elements / (y->dims[0] * length);
  const int32_t *rows = in[ROWS_LIST];
  double *to = out[0];
  const double *addend = in[ROWS_ADDEND], *x = in[ROWS_X];
  FOR(i, y->elements) to[i] = addend != NULL ? addend[i] : 0;
  FOR(n, y->dims[0]) FOR(i, kept) FOR(d, row) {
    to[(n * length + rows[i]) * row + d] += x[(n * kept + i) * row + d];
  }
  return NEAP_OK;
}
