/* Reads parameters that are not in memory completely, on the CPU. */
#include <string.h>

#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"
#include "kernel/spilled.h"

CPU_OPERATOR(fetch, TYPES_FLOAT) {
  p->inputs[0] = p->outputs[0] = ROW_MAJOR;
  p->seconds = fetch_seconds(p->roofline, node_input(graph, node, 0));
  return cpu_finish(state, p, run_fetch_elsewhere, (struct cpu_kernel){0});
}

/* Takes any format: that of the parameter. */
CPU_OPERATOR(all_gather, TYPES_FLOAT) {
  const struct tensor *w = &graph->tensors.data[node->outputs[0]];
  p->outputs[0] = (struct memory_format){0};
  p->seconds = gather_seconds(p->roofline, w);
  return cpu_finish(state, p, run_fetch_elsewhere, (struct cpu_kernel){0});
}

/* Takes any format, too. */
CPU_OPERATOR(load, TYPES_FLOAT) {
  p->outputs[0] = (struct memory_format){0};
  p->seconds = fetch_seconds(p->roofline, node_input(graph, node, 0));
  return cpu_finish(state, p, run_fetch_elsewhere, (struct cpu_kernel){0});
}

/* Lowered graphs get these behind all others (kernel/restorers.c), for bytes in whatever format they have. */
CPU_OPERATOR(store, TYPES_FLOAT) {
  (void)graph, (void)node;
  return cpu_finish(state, p, run_fetch_elsewhere, (struct cpu_kernel){0});
}
CPU_OPERATOR(restore, TYPES_FLOAT) {
  (void)graph, (void)node;
  return cpu_finish(state, p, run_fetch_elsewhere, (struct cpu_kernel){0});
}

/* Returns the last place before `i` with the same id; -1: no place has it. */
static int64_t earlier(const int32_t *ids, int64_t i) {
  int64_t k = i - 1;
  while (k >= 0 && ids[k] != ids[i]) k--;
  return k;
}

/* Gives the rows whose ids are in [first, end), and zeros for those that do not exist. Reads each row once,
 * into the workspace. */
static neap_status fetch_some(const struct kernel *kernel, void *const *in, void *const *out, void *workspace,
                              const struct run_context *context, int64_t first, int64_t end) {
  const struct tensor *t = kernel_input(kernel, 0);
  const neap_dtype type = kernel_output(kernel, 0)->dtype;
  const int64_t width = t->dims[1], count = kernel_input(kernel, 1)->elements;
  const size_t made = (size_t)dtype_bytes(type, (uint64_t)width);
  const int32_t *ids = in[1];
  for (int64_t i = 0; i < count; i++) {
    unsigned char *to = (unsigned char *)out[0] + (size_t)i * made;
    const bool exists = ids[i] >= 0 && ids[i] < t->dims[0];
    if (exists && (ids[i] < first || ids[i] >= end)) continue;
    const int64_t same = earlier(ids, i);
    if (!exists) {
      memset(to, 0, made);
    } else if (same >= 0) {
      memcpy(to, (unsigned char *)out[0] + (size_t)same * made, made);
    } else {
      TRY(context->rows.read(context->rows.context, t, ids[i], 1, workspace));
      if (dtype_is_quantised(t->dtype))
        K->dequantise(t->dtype, width, workspace, (struct stored){type, to});
      else
        memcpy(to, workspace, made);
    }
  }
  return NEAP_OK;
}
/* Rows of a file that is read in pieces come in their order there. */
RUN(run_fetch_rows) {
  const struct tensor *t = kernel_input(kernel, 0);
  const int64_t piece = SPILL_PIECE / t->dims[1], rows = t->spilled && piece > 0 ? piece : t->dims[0];
  for (int64_t first = 0; first < t->dims[0]; first += rows)
    TRY(fetch_some(kernel, in, out, workspace, context, first, first + rows));
  return NEAP_OK;
}
CPU_OPERATOR(fetch_rows, TYPES_FLOAT) {
  const struct tensor *table = node_input(graph, node, 0);
  p->inputs[0] = p->inputs[1] = p->outputs[0] = ROW_MAJOR;
  p->workspace = dtype_bytes(table->dtype, (uint64_t)table->dims[1]);
  p->seconds = fetch_rows_seconds(p->roofline, table, node_input(graph, node, 1)->elements);
  return cpu_finish(state, p, run_fetch_rows, (struct cpu_kernel){0});
}
