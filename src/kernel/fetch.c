/* The costs of bringing parameters that are not in memory completely. */
#include "kernel/kernel.h"

/* Returns the bytes of a parameter on disk. */
static double bytes_of(const struct tensor *t) {
  return (double)(t->spilled ? dtype_bytes(t->dtype, (uint64_t)t->elements) : t->file_bytes);
}

double fetch_seconds(const struct roofline *roofline, const struct tensor *parameter) {
  return bytes_of(parameter) / (roofline->disk > 0 ? roofline->disk : usual_roofline.disk);
}

double fetch_rows_seconds(const struct roofline *roofline, const struct tensor *table, int64_t rows) {
  static const double page = 4096, read = 1e-4; /* bytes; seconds that a read of one page takes */
  const double row = bytes_of(table) / (double)table->dims[0];
  if (table->spilled) return fetch_seconds(roofline, table); /* a piece at a time, each checked as a whole */
  return (double)rows * (read + (row + page) / (roofline->disk > 0 ? roofline->disk : usual_roofline.disk));
}

double gather_seconds(const struct roofline *roofline, const struct tensor *parameter) {
  return (double)dtype_bytes(parameter->dtype, (uint64_t)parameter->elements) /
         (roofline->exchange > 0 ? roofline->exchange : usual_roofline.exchange);
}

neap_status run_fetch_elsewhere(const struct kernel *kernel, void *const *inputs, void *const *outputs,
                                void *workspace, const struct run_context *context) {
  (void)inputs, (void)outputs, (void)workspace, (void)context;
  return neap_fail(NEAP_INTERNAL, "'%s' is not in memory completely: no kernel can load it",
                   kernel_input(kernel, 0)->name);
}
