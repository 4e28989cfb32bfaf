/* Runs a lowered graph the plainest way: every tensor in memory of its own, every node once, in order. Values
 * go in and out as doubles in row-major order, whatever the backend's element type and the memory format. */
#ifndef NEAP_TESTS_INTERPRETER_H
#define NEAP_TESTS_INTERPRETER_H

#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernel/kernel.h"
#include "testing.h"

#define assert_ok(expression) assert_int_equal_message_(expression, #expression)

static inline void assert_int_equal_message_(neap_status status, const char *expression) {
  if (status != NEAP_OK) fail_msg("%s: %s: %s", expression, neap_status_text(status), neap_error_message());
}

struct interpreter {
  const struct lowered *lowered; /* borrowed */
  void **data;                   /* by graph tensor; a view's is that of its storage */
  void **owned;                  /* what is to be freed */
};

static inline size_t interpreter_bytes(const struct interpreter *m, int32_t tensor) {
  return m->lowered->step->tensors[m->lowered->home[tensor]].bytes;
}

/* Buffers begin `shift` units of 64 bytes behind a page and are filled with the byte `garbage`. */
static inline struct interpreter interpreter_create(const struct lowered *lowered, size_t shift,
                                                    int garbage) {
  const size_t tensors = lowered->graph->tensors.count, offset = shift * MEMORY_ALIGNMENT;
  struct interpreter m = {lowered, calloc(tensors, sizeof(void *)), calloc(tensors, sizeof(void *))};
  assert_true(m.data != NULL && m.owned != NULL);
  for (size_t t = 0; t < tensors; t++) {
    const int32_t base = graph_storage(lowered->graph, (int32_t)t),
                  lies_in = lowered->graph->tensors.data[base].lies_in,
                  storage = lies_in > 0 ? lies_in - 1 : base;
    if (storage == (int32_t)t) {
      const size_t bytes = interpreter_bytes(&m, storage);
      assert_int_equal(posix_memalign(&m.owned[t], 4096, bytes + offset), 0);
      m.data[t] = (unsigned char *)m.owned[t] + offset;
      memset(m.data[t], garbage, bytes);
    } else {
      m.data[t] = m.data[storage];
    }
  }
  return m;
}

static inline void interpreter_free(struct interpreter *m) {
  for (size_t t = 0; t < m->lowered->graph->tensors.count; t++) free(m->owned[t]);
  free(m->data);
  free(m->owned);
}

static inline void interpreter_run(const struct interpreter *m, const struct run_context *context) {
  for (size_t v = 0; v < m->lowered->graph->nodes.count; v++) {
    const struct kernel *kernel = &m->lowered->kernels[v];
    const struct node *node = kernel_node(kernel);
    void **inputs = calloc((size_t)node->input_count + 1, sizeof *inputs), *outputs[NODE_MAX_OUTPUTS],
         *workspace = NULL;
    assert_non_null(inputs);
    for (int32_t i = 0; i < node->input_count; i++)
      if (node->inputs[i] != NO_TENSOR) inputs[i] = m->data[node->inputs[i]];
    for (int32_t i = 0; i < node->output_count; i++) outputs[i] = m->data[node->outputs[i]];
    const size_t bytes = m->lowered->step->nodes[v].workspace;
    if (bytes > 0) assert_int_equal(posix_memalign(&workspace, MEMORY_ALIGNMENT, bytes), 0);
    if (bytes > 0) memset(workspace, 0xFF, bytes);
    assert_ok(kernel->run(kernel, inputs, outputs, workspace, context));
    free(workspace);
    free(inputs);
  }
}

/* Where element i (row-major) of a tensor stands, by the formula of struct activation. */
static inline int64_t element_position(const struct tensor *t, struct memory_format format, int64_t i) {
  if (t->rank < 2 || format.lanes <= 1) return i;
  const int64_t channels = t->dims[1], pixels = t->elements / t->dims[0] / channels, lanes = format.lanes,
                blocks = (channels + lanes - 1) / lanes;
  const int64_t n = i / (channels * pixels), c = i / pixels % channels, p = i % pixels;
  return ((n * blocks + c / lanes) * pixels + p) * lanes + c % lanes;
}

static inline void interpreter_write_packed(const struct interpreter *m, int32_t id, const double *values) {
  const struct tensor *t = &m->lowered->graph->tensors.data[id];
  float *plain = malloc((size_t)t->elements * sizeof *plain);
  assert_non_null(plain);
  for (int64_t i = 0; i < t->elements; i++) plain[i] = (float)values[i];
  assert_ok(m->lowered->backend->import_variable(m->lowered->state, t, m->lowered->formats[id], plain,
                                                 m->data[id]));
  free(plain);
}

/* Tensors that are not views. */
static inline void interpreter_write(const struct interpreter *m, int32_t id, const double *values) {
  const struct tensor *t = &m->lowered->graph->tensors.data[id];
  const struct memory_format format = m->lowered->formats[id];
  if (format.packed != NULL || dtype_is_quantised(t->dtype)) {
    interpreter_write_packed(m, id, values);
    return;
  }
  memset(m->data[id], 0, interpreter_bytes(m, id)); /* padding lanes hold 0 */
  for (int64_t i = 0; i < t->elements; i++) {
    const int64_t at = element_position(t, format, i);
    if (t->dtype == NEAP_I32)
      ((int32_t *)m->data[id])[at] = (int32_t)values[i];
    else if (t->dtype == NEAP_BIT)
      ((uint8_t *)m->data[id])[at / 8] |= (uint8_t)((values[i] != 0) << at % 8);
    else if (t->dtype == NEAP_U8)
      ((uint8_t *)m->data[id])[at] = (uint8_t)values[i];
    else if (t->dtype == NEAP_BF16)
      ((uint16_t *)m->data[id])[at] = bf16_from_float((float)values[i]);
    else if (t->dtype == NEAP_F16)
      ((uint16_t *)m->data[id])[at] = f16_from_float((float)values[i]);
    else if (t->dtype == NEAP_F64)
      ((double *)m->data[id])[at] = values[i];
    else
      ((float *)m->data[id])[at] = (float)values[i];
  }
}

/* The elements of a tensor that is not a view; the caller frees them. */
static inline double *interpreter_read(const struct interpreter *m, int32_t id) {
  const struct tensor *t = &m->lowered->graph->tensors.data[id];
  const struct memory_format format = m->lowered->formats[id];
  double *values = malloc((size_t)t->elements * sizeof *values);
  float *plain = malloc((size_t)t->elements * sizeof *plain);
  assert_true(values != NULL && plain != NULL);
  const bool exported = format.packed != NULL || dtype_is_quantised(t->dtype);
  if (exported)
    assert_ok(m->lowered->backend->export_variable(m->lowered->state, t, format, m->data[id], plain));
  for (int64_t i = 0; i < t->elements; i++) {
    const int64_t at = element_position(t, format, i);
    values[i] = exported                ? (double)plain[i]
                : t->dtype == NEAP_I32  ? ((const int32_t *)m->data[id])[at]
                : t->dtype == NEAP_BIT  ? ((const uint8_t *)m->data[id])[at / 8] >> at % 8 & 1
                : t->dtype == NEAP_U8   ? ((const uint8_t *)m->data[id])[at]
                : t->dtype == NEAP_BF16 ? (double)bf16_to_float(((const uint16_t *)m->data[id])[at])
                : t->dtype == NEAP_F16  ? (double)f16_to_float(((const uint16_t *)m->data[id])[at])
                : t->dtype == NEAP_F64  ? ((const double *)m->data[id])[at]
                                        : (double)((const float *)m->data[id])[at];
  }
  free(plain);
  return values;
}

#endif
