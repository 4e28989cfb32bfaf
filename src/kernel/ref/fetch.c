/* Parameters that lie on disk. */
#include <string.h>

#include "base/quantised.h"
#include "kernel/ref/ref.h"

RUN(run_fetch) { return run_fetch_elsewhere(kernel, in, out, workspace, context); }

/* Rows of a table, which are read into the workspace. */
RUN(run_fetch_rows) {
  const struct tensor *table = kernel_input(kernel, 0);
  const int64_t width = table->dims[1];
  double part[WEIGHTS_PART];
  FOR(i, kernel_input(kernel, 1)->elements) {
    const int32_t row = ((const int32_t *)in[1])[i];
    double *y = (double *)out[0] + i * width;
    FOR(k, width) y[k] = 0;
    if (row < 0 || row >= table->dims[0]) continue;
    TRY(context->rows.read(context->rows.context, table, row, 1, workspace));
    for (int64_t first = 0; first < width; first += WEIGHTS_PART) {
      const int64_t length = part_length(first, width);
      memcpy(y + first, weights_at(table, workspace, first, length, part), (size_t)length * sizeof *y);
    }
  }
  return NEAP_OK;
}
