/* Products with weights [outputs, inputs] that are stored in blocks: y = x W^T + b and dx = dy W. One panel
 * of W at a time is turned into numbers in the workspace, some of its rows for y and some of its columns for
 * dx, and gives these columns of the result. So not all of W exists as numbers at once, and each element is
 * one sum, though oneDNN may add in another order than for all of W. Panels depend on shapes alone, not on
 * the plan. */
#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"

enum { PANEL_BYTES = 2 << 20, PANEL_ROWS = 16 /* a multiple of */, ALIGNMENT = MEMORY_ALIGNMENT };

struct panels {
  const struct dnn_primitive *last; /* of the panel that is smaller; NULL: all are alike */
  int64_t count, size;              /* rows or columns of W that a panel has */
  neap_dtype dtype;                 /* that they become */
  uint64_t scratchpad;              /* where it begins in the workspace */
};

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the lines of a panel, `unit` or more, so that it takes about PANEL_BYTES; a line has `line`
 * bytes. */
static int64_t panel_size(int64_t count, int64_t line, int64_t unit) {
  const int64_t fits = PANEL_BYTES / line / unit * unit;
  return at_most(count, fits > unit ? fits : unit);
}

static neap_status prepare_panels(struct cpu *cpu, struct preparation *p, kernel_run *run,
                                  struct dnn_matmul m, struct panels panels) {
  struct cpu_kernel kernel = {0};
  const int64_t whole = panels.count, rest = whole % panels.size;
  m.c_stride = whole;
  m.bf16 = panels.dtype == NEAP_BF16;
  m.n = panels.size;
  TRY(dnn_make_matmul(cpu->dnn, &m, &kernel.primitive));
  uint64_t scratchpad = dnn_scratchpad_bytes(kernel.primitive);
  if (rest > 0) {
    m.n = rest;
    TRY(dnn_make_matmul(cpu->dnn, &m, &panels.last));
    const uint64_t last = dnn_scratchpad_bytes(panels.last);
    scratchpad = last > scratchpad ? last : scratchpad;
  }
  panels.scratchpad =
      (dtype_bytes(panels.dtype, (uint64_t)(panels.size * m.k)) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  p->workspace = panels.scratchpad + scratchpad;
  struct panels *kept = region_copy(p->region, &panels, 1, sizeof panels);
  RETURN_IF_NULL(kept);
  kernel.panels = kept;
  return cpu_finish(cpu, p, run, kernel);
}

static void *element_at(void *data, neap_dtype dtype, int64_t i) {
  return (unsigned char *)data + dtype_bytes(dtype, (uint64_t)i);
}

/* Computes columns [first, first + size) of the result. */
static neap_status multiply(const struct kernel *kernel, int64_t first, int64_t size, void *a, void *bias,
                            void *c, void *workspace) {
  const struct panels *s = cpu_kernel(kernel)->panels;
  return dnn_run(size == s->size ? cpu_kernel(kernel)->primitive : s->last,
                 &(struct dnn_operands){.a = a,
                                        .b = workspace,
                                        .c = element_at(c, s->dtype, first),
                                        .bias = bias != NULL ? element_at(bias, s->dtype, first) : NULL,
                                        .scratchpad = (unsigned char *)workspace + s->scratchpad});
}

/* Inputs x, w, [bias]. */
RUN(run_linear_panels) {
  (void)context;
  const struct panels *s = cpu_kernel(kernel)->panels;
  const struct tensor *w = kernel_input(kernel, 1);
  for (int64_t first = 0; first < s->count; first += s->size) {
    const int64_t size = at_most(s->size, s->count - first);
    K->dequantise(w->dtype, size * w->dims[1], element_at(in[1], w->dtype, first * w->dims[1]),
                  (struct stored){s->dtype, workspace});
    TRY(multiply(kernel, first, size, in[0], in[2], out[0], workspace));
  }
  return NEAP_OK;
}

neap_status prepare_linear_panels(struct cpu *cpu, const struct tensor *x, const struct tensor *w, bool bias,
                                  struct preparation *p) {
  const int64_t line = (int64_t)dtype_bytes(x->dtype, (uint64_t)w->dims[1]);
  return prepare_panels(
      cpu, p, run_linear_panels,
      (struct dnn_matmul){.m = x->dims[0], .k = w->dims[1], .b_transposed = true, .bias = bias},
      (struct panels){
          .count = w->dims[0], .size = panel_size(w->dims[0], line, PANEL_ROWS), .dtype = x->dtype});
}

/* Inputs w, dy. */
RUN(run_backward_panels) {
  (void)context;
  const struct panels *s = cpu_kernel(kernel)->panels;
  const struct tensor *w = kernel_input(kernel, 0);
  for (int64_t first = 0; first < s->count; first += s->size) {
    const int64_t size = at_most(s->size, s->count - first);
    K->dequantise_columns(w->dtype, w->dims[0], w->dims[1], first, size, in[0],
                          (struct stored){s->dtype, workspace});
    TRY(multiply(kernel, first, size, in[1], NULL, out[0], workspace));
  }
  return NEAP_OK;
}

neap_status prepare_backward_panels(struct cpu *cpu, const struct tensor *w, const struct tensor *dy,
                                    struct preparation *p) {
  const int64_t line = (int64_t)dtype_bytes(dy->dtype, (uint64_t)w->dims[0]);
  const int64_t unit = dtype_rows[w->dtype].block_elements;
  return prepare_panels(
      cpu, p, run_backward_panels, (struct dnn_matmul){.m = dy->dims[0], .k = w->dims[0]},
      (struct panels){.count = w->dims[1], .size = panel_size(w->dims[1], line, unit), .dtype = dy->dtype});
}
