/* Reads parameters that are not in memory completely. */
#include "base/quantised.h"
#include "kernel/ref/ref.h"

RUN(run_fetch) { return run_fetch_elsewhere(kernel, in, out, workspace, context); }
RUN(run_load) { return run_fetch_elsewhere(kernel, in, out, workspace, context); }
RUN(run_store) { return run_fetch_elsewhere(kernel, in, out, workspace, context); }
RUN(run_restore) { return run_fetch_elsewhere(kernel, in, out, workspace, context); }
RUN(run_all_gather) { return run_fetch_elsewhere(kernel, in, out, workspace, context); }

/* Reads rows of a table into the workspace. */
RUN(run_fetch_rows) {
  const struct tensor *table = kernel_input(kernel, 0);
  const int64_t width = table->dims[1];
  FOR(i, kernel_input(kernel, 1)->elements) {
    const int32_t row = ((const int32_t *)in[1])[i];
    const bool exists = row >= 0 && row < table->dims[0];
    if (exists) TRY(context->rows.read(context->rows.context, table, row, 1, workspace));
    copy_row(table, exists ? workspace : NULL, 0, (double *)out[0] + i * width, context);
  }
  return NEAP_OK;
}
