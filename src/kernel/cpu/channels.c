/* Operators across channels: concatenation, slices, local response normalisation. */
#include <string.h>

#include "kernel/cpu/operator.h"

/* ---- Concatenation and slices ---- */

/* Some channels of a tensor as rows in memory that are `stride` apart: the channels of a pixel if all its
 * channels are adjacent, otherwise those of an image, which must be complete blocks. */
struct channel_rows {
  int64_t rows, length, stride, first;
};

static struct channel_rows rows_of(struct activation whole, int64_t first, int64_t count) {
  const int64_t pixels = whole.height * whole.width;
  if (whole.lanes == whole.channels)
    return (struct channel_rows){whole.images * pixels, count, whole.channels, first};
  return (struct channel_rows){whole.images, count * pixels, whole.channels * pixels, first * pixels};
}

/* Views a tensor as seen by its parts along an axis: dimensions before the axis as images, those after it as
 * pixels. */
static struct activation parts_of(const struct tensor *t, int64_t axis, struct memory_format format) {
  if (axis == 1 && format.lanes != 1) return activation_of(t, format);
  struct activation a = {.images = 1, .channels = t->dims[axis], .height = 1, .width = 1, .lanes = 1};
  for (int32_t i = 0; i < axis; i++) a.images *= t->dims[i];
  for (int32_t i = (int32_t)axis + 1; i < t->rank; i++) a.width *= t->dims[i];
  return a;
}

/* Returns the format of a tensor of this kind: row-major, channel blocks or channels last. */
static struct memory_format of_kind(struct memory_format kind, const struct tensor *t) {
  if (kind.blocks || kind.lanes == 1 || t->rank < 2) return kind;
  return (struct memory_format){.lanes = t->dims[1]};
}

/* Returns the kind for a tensor and its parts, given that of one of them: channels last if a block would be
 * cut. */
static struct memory_format kind_for(struct memory_format kind, bool whole_blocks) {
  return kind.blocks && !whole_blocks ? (struct memory_format){.lanes = kind.lanes} : kind;
}

static neap_status run_concat(const struct kernel *kernel, void *const *in, void *const *out, void *workspace,
                              const struct run_context *context) {
  (void)workspace, (void)context;
  const struct activation whole = cpu_kernel(kernel)->a;
  int64_t first = 0;
  for (int32_t i = 0; i < kernel_node(kernel)->input_count; i++) {
    const int64_t channels = kernel_input(kernel, i)->dims[kernel_node(kernel)->attributes.part.axis];
    const struct channel_rows r = rows_of(whole, first, channels);
    cpu_kernel(kernel)->kernels->copy_rows(r.rows, r.length, in[i], r.length, (float *)out[0] + r.first,
                                           r.stride);
    first += channels;
  }
  return NEAP_OK;
}

/* All parts take the format of the first that is not row-major, or row-major along another axis than the
 * channels. */
CPU_OPERATOR(concat, TYPE_F32) {
  const struct tensor *y = &graph->tensors.data[node->outputs[0]];
  const int64_t axis = node->attributes.part.axis;
  struct memory_format kind = ROW_MAJOR;
  for (int32_t i = node->input_count; axis == 1 && i-- > 0;)
    if (p->inputs[i].lanes > 1) kind = p->inputs[i];
  bool whole_blocks = true;
  for (int32_t i = 0; i < node->input_count; i++)
    whole_blocks = whole_blocks && (axis != 1 || node_input(graph, node, i)->dims[1] % kind.lanes == 0);
  kind = kind_for(kind, whole_blocks);
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = of_kind(kind, node_input(graph, node, i));
  p->outputs[0] = of_kind(kind, y);
  return cpu_finish(state, p, run_concat, (struct cpu_kernel){.a = parts_of(y, axis, p->outputs[0])});
}

static neap_status run_slice(const struct kernel *kernel, void *const *in, void *const *out, void *workspace,
                             const struct run_context *context) {
  (void)workspace, (void)context;
  const struct cpu_kernels *k = cpu_kernel(kernel)->kernels;
  const struct part_attributes *a = &kernel_node(kernel)->attributes.part;
  const struct channel_rows r = rows_of(cpu_kernel(kernel)->a, a->first, a->count);
  const float *x = (const float *)in[0] + r.first;
  if (in[1] != NULL)
    k->add_rows(r.rows, r.length, x, r.stride, in[1], out[0], r.length);
  else
    k->copy_rows(r.rows, r.length, x, r.stride, out[0], r.length);
  return NEAP_OK;
}

static neap_status run_slice_backward(const struct kernel *kernel, void *const *in, void *const *out,
                                      void *workspace, const struct run_context *context) {
  (void)workspace, (void)context;
  const struct part_attributes *a = &kernel_node(kernel)->attributes.part;
  const struct cpu_kernels *k = cpu_kernel(kernel)->kernels;
  const struct channel_rows r = rows_of(cpu_kernel(kernel)->a, a->first, a->count);
  const int64_t elements = kernel_output(kernel, 0)->elements;
  float *dx = out[0], *slice = dx + r.first;
  if (in[1] == NULL) {
    memset(dx, 0, (size_t)elements * sizeof *dx);
    k->copy_rows(r.rows, r.length, in[0], r.length, slice, r.stride);
    return NEAP_OK;
  }
  if (in[1] != out[0]) k->copy_rows(1, elements, in[1], elements, dx, elements);
  k->add_rows(r.rows, r.length, in[0], r.length, slice, slice, r.stride);
  return NEAP_OK;
}

/* Prepares both sides in the format of input 0; `whole`: the side with all channels. */
static neap_status prepare_part(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p, const struct tensor *whole, kernel_run *run) {
  const struct part_attributes *a = &node->attributes.part;
  const int64_t lanes = p->inputs[0].lanes;
  const struct memory_format kind =
      a->axis != 1 ? ROW_MAJOR
                   : kind_for(p->inputs[0],
                              whole->dims[1] % lanes == 0 && a->first % lanes == 0 && a->count % lanes == 0);
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR) p->inputs[i] = of_kind(kind, node_input(graph, node, i));
  p->outputs[0] = of_kind(kind, &graph->tensors.data[node->outputs[0]]);
  return cpu_finish(cpu, p, run, (struct cpu_kernel){.a = parts_of(whole, a->axis, of_kind(kind, whole))});
}

CPU_OPERATOR(slice, TYPE_F32) {
  return prepare_part(state, graph, node, p, node_input(graph, node, 0), run_slice);
}

CPU_OPERATOR(slice_backward, TYPE_F32) {
  return prepare_part(state, graph, node, p, &graph->tensors.data[node->outputs[0]], run_slice_backward);
}

/* ---- Local response normalisation ---- */

static struct response response_of(const struct node *node) {
  const struct response_attributes *a = &node->attributes.response;
  return (struct response){a->size, a->alpha, a->beta, a->k};
}

static neap_status run_local_response_norm(const struct kernel *kernel, void *const *in, void *const *out,
                                           void *workspace, const struct run_context *context) {
  (void)context;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  k->kernels->local_response_norm(k->a, response_of(kernel_node(kernel)), in[0], out[0], workspace);
  return NEAP_OK;
}

static neap_status run_local_response_norm_backward(const struct kernel *kernel, void *const *in,
                                                    void *const *out, void *workspace,
                                                    const struct run_context *context) {
  (void)context;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  k->kernels->local_response_norm_backward(k->a, response_of(kernel_node(kernel)), in[0], in[1], out[0],
                                           workspace);
  return NEAP_OK;
}

static neap_status prepare_response(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                    struct preparation *p, kernel_run *run) {
  const struct activation a = activation_of(node_input(graph, node, 0), p->inputs[0]);
  for (int32_t i = 1; i < node->input_count; i++) p->inputs[i] = p->inputs[0];
  p->outputs[0] = p->inputs[0];
  p->workspace = cpu->kernels->response_workspace((a.channels + a.lanes - 1) / a.lanes * a.lanes,
                                                  response_of(node), cpu->threads);
  return cpu_finish(cpu, p, run, (struct cpu_kernel){.a = a});
}

CPU_OPERATOR(local_response_norm, TYPE_F32) {
  return prepare_response(state, graph, node, p, run_local_response_norm);
}

CPU_OPERATOR(local_response_norm_backward, TYPE_F32) {
  return prepare_response(state, graph, node, p, run_local_response_norm_backward);
}
