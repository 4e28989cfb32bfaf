/* Convolutions, matrix products and packed weights: oneDNN's. */
#include <string.h>

#include "kernel/cpu/cpu.h"

/* ---- Which algorithm ---- */

/* Winograd's 4x4 tiles halve the time of a 3x3 convolution between 64 and 256 channels; with fewer the
 * transforms cost what the products save, with more the transformed weights no longer fit the caches. By
 * shape alone: the last bits hang on it. */
static bool wants_winograd(const struct cpu *cpu, const struct dnn_convolution *c) {
  if (cpu->convolution == NEAP_CONV_DIRECT || c->plain) return false;
  if (c->kernel[2] != 3 || c->kernel[3] != 3 || c->stride != 1 || c->dilation != 1 || c->groups != 1 ||
      c->source_lanes != 16)
    return false;
  if (cpu->convolution == NEAP_CONV_WINOGRAD) return true;
  const int64_t least = c->kernel[0] < c->kernel[1] ? c->kernel[0] : c->kernel[1];
  const int64_t most = c->kernel[0] < c->kernel[1] ? c->kernel[1] : c->kernel[0];
  return least >= 64 && most <= 256;
}

/* Of the transformed tensors oneDNN keeps a part or all, which is more than twice the operands. No budget
 * below what the largest node needs can be met: a scratchpad may not raise that by more than a tenth. */
static const double raised_at_most = 1.1;

static bool fits_scratchpad(const struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                            const struct dnn_primitive *primitive) {
  return cpu->convolution == NEAP_CONV_WINOGRAD ||
         node_bytes(graph, node) + (double)dnn_scratchpad_bytes(primitive) <=
             raised_at_most * cpu->largest_node;
}

/* FLOPs that Winograd spares, in the roofline. */
static const double winograd_gain = 2, direct_flops_per_second = 300e9;

static neap_status make(struct cpu *cpu, struct dnn_convolution c, const struct dnn_layout *weights,
                        struct preparation *p, const struct neap_graph *graph, const struct node *node,
                        struct cpu_kernel *kernel) {
  if (wants_winograd(cpu, &c)) {
    c.winograd = true;
    if (dnn_make_convolution(cpu->dnn, &c, weights, &kernel->primitive) == NEAP_OK &&
        fits_scratchpad(cpu, graph, node, kernel->primitive)) {
      p->seconds = node_flops(graph, node) / (winograd_gain * direct_flops_per_second);
      p->workspace = dnn_scratchpad_bytes(kernel->primitive);
      return NEAP_OK;
    }
    c.winograd = false;
  }
  TRY(dnn_make_convolution(cpu->dnn, &c, weights, &kernel->primitive));
  p->workspace = dnn_scratchpad_bytes(kernel->primitive);
  return NEAP_OK;
}

/* Makes the primitive in the formats that the graph prefers, else in channels last, else row-major: the first
 * that oneDNN has a fast kernel for. Where it has none, as on most processors but x86-64, its plain one has
 * to do. `source` and `destination` get the formats. */
static neap_status make_somehow(struct cpu *cpu, enum dnn_pass pass, const struct tensor *x,
                                const struct tensor *w, const struct tensor *y,
                                const struct neap_graph *graph, const struct node *node,
                                const struct dnn_layout *weights, struct preparation *p,
                                struct cpu_kernel *kernel, struct memory_format *source,
                                struct memory_format *destination) {
  const struct attributes *a = &node->attributes;
  struct dnn_convolution c = {.pass = pass,
                              .bias = pass == DNN_FORWARD && a->bias,
                              .addend = pass == DNN_FORWARD && a->addend,
                              .stride = a->stride,
                              .padding = {padding_of(a, 0), padding_of(a, 1)},
                              .dilation = a->dilation,
                              .groups = a->groups};
  memcpy(c.source, x->dims, sizeof c.source);
  memcpy(c.destination, y->dims, sizeof c.destination);
  memcpy(c.kernel, w->dims, sizeof c.kernel);
  const struct memory_format last[2] = {{.lanes = x->dims[1]}, {.lanes = y->dims[1]}};
  const struct {
    struct memory_format source, destination;
    bool plain;
  } choices[] = {
      {preferred_format(cpu, x), preferred_format(cpu, y), false},
      {last[0], last[1], false},
      {ROW_MAJOR, ROW_MAJOR, false},
      {last[0], last[1], true},
  };
  neap_status status = NEAP_UNSUPPORTED;
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    *source = choices[i].source;
    *destination = choices[i].destination;
    c.plain = choices[i].plain;
    c.source_lanes = source->lanes;
    c.destination_lanes = destination->lanes;
    c.blocks = source->blocks || destination->blocks;
    status = make(cpu, c, weights, p, graph, node, kernel);
    if (status != NEAP_UNSUPPORTED) return status;
  }
  return neap_fail(status, "oneDNN has no kernel for [%lld, %lld, %lld, %lld] and [%lld, %lld, %lld, %lld]",
                   (long long)x->dims[0], (long long)x->dims[1], (long long)x->dims[2], (long long)x->dims[3],
                   (long long)w->dims[0], (long long)w->dims[1], (long long)w->dims[2],
                   (long long)w->dims[3]);
}

static struct memory_format packed(const struct dnn_layout *layout) {
  return (struct memory_format){.packed = layout};
}

static const struct tensor *tensor(const struct neap_graph *graph, int32_t id) {
  return &graph->tensors.data[id];
}

/* ---- Convolution ---- */

static neap_status run_conv(const struct kernel *kernel, void *const *in, void *const *out, void *workspace,
                            const struct run_context *context) {
  (void)context;
  const struct attributes *a = &kernel_node(kernel)->attributes;
  if (a->addend && in[2] != out[0]) { /* the sum goes on top of what the destination holds */
    const struct activation y = cpu_kernel(kernel)->b;
    memcpy(out[0], in[2],
           (size_t)(y.images * ((y.channels + y.lanes - 1) / y.lanes * y.lanes) * y.height * y.width) *
               sizeof(float));
  }
  void *bias = a->bias ? in[kernel_node(kernel)->input_count - 1] : NULL;
  return dnn_run(
      cpu_kernel(kernel)->primitive,
      &(struct dnn_operands){.a = in[0], .b = in[1], .c = out[0], .bias = bias, .scratchpad = workspace});
}

neap_status prepare_conv(void *state, const struct neap_graph *graph, const struct node *node,
                         struct preparation *p) {
  struct cpu *cpu = state;
  const struct tensor *x = tensor(graph, node->inputs[0]), *w = tensor(graph, node->inputs[1]),
                      *y = tensor(graph, node->outputs[0]);
  struct cpu_kernel kernel = {0};
  TRY(make_somehow(cpu, DNN_FORWARD, x, w, y, graph, node, NULL, p, &kernel, &p->inputs[0], &p->outputs[0]));
  p->inputs[1] = packed(dnn_weights(kernel.primitive));
  if (node->attributes.addend) p->inputs[2] = p->outputs[0];
  if (node->attributes.bias) p->inputs[node->input_count - 1] = ROW_MAJOR;
  kernel.b = activation_of(y, p->outputs[0]);
  return cpu_finish(cpu, p, run_conv, kernel);
}

/* Inputs w, dy -> dx; oneDNN's operands are dx, w, dy. */
static neap_status run_backward_data(const struct kernel *kernel, void *const *in, void *const *out,
                                     void *workspace, const struct run_context *context) {
  (void)context;
  return dnn_run(cpu_kernel(kernel)->primitive,
                 &(struct dnn_operands){.a = out[0], .b = in[0], .c = in[1], .scratchpad = workspace});
}

neap_status prepare_conv_backward_data(void *state, const struct neap_graph *graph, const struct node *node,
                                       struct preparation *p) {
  struct cpu *cpu = state;
  const struct tensor *w = tensor(graph, node->inputs[0]), *dy = tensor(graph, node->inputs[1]),
                      *dx = tensor(graph, node->outputs[0]);
  struct cpu_kernel kernel = {0};
  TRY(make_somehow(cpu, DNN_BACKWARD_DATA, dx, w, dy, graph, node, NULL, p, &kernel, &p->outputs[0],
                   &p->inputs[1]));
  p->inputs[0] = packed(dnn_weights(kernel.primitive));
  return cpu_finish(cpu, p, run_backward_data, kernel);
}

/* Inputs x, dy -> dw. */
static neap_status run_backward_weights(const struct kernel *kernel, void *const *in, void *const *out,
                                        void *workspace, const struct run_context *context) {
  (void)context;
  return dnn_run(cpu_kernel(kernel)->primitive,
                 &(struct dnn_operands){.a = in[0], .b = out[0], .c = in[1], .scratchpad = workspace});
}

neap_status prepare_conv_backward_weights(void *state, const struct neap_graph *graph,
                                          const struct node *node, struct preparation *p) {
  struct cpu *cpu = state;
  const struct tensor *x = tensor(graph, node->inputs[0]), *dy = tensor(graph, node->inputs[1]),
                      *dw = tensor(graph, node->outputs[0]);
  struct cpu_kernel kernel = {0};
  TRY(make_somehow(cpu, DNN_BACKWARD_WEIGHTS, x, dw, dy, graph, node, NULL, p, &kernel, &p->inputs[0],
                   &p->inputs[1]));
  p->outputs[0] = packed(dnn_weights(kernel.primitive));
  return cpu_finish(cpu, p, run_backward_weights, kernel);
}

/* ---- Transposed convolution ---- */

/* Inputs x, w, [bias]; oneDNN's operands are those of a gradient by the input: y, w, x. */
static neap_status run_conv_transposed(const struct kernel *kernel, void *const *in, void *const *out,
                                       void *workspace, const struct run_context *context) {
  (void)context;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  TRY(dnn_run(k->primitive,
              &(struct dnn_operands){.a = out[0], .b = in[1], .c = in[0], .scratchpad = workspace}));
  if (kernel_node(kernel)->attributes.bias) k->kernels->bias_add(k->b, in[2], out[0]);
  return NEAP_OK;
}

neap_status prepare_conv_transposed(void *state, const struct neap_graph *graph, const struct node *node,
                                    struct preparation *p) {
  const struct tensor *x = tensor(graph, node->inputs[0]), *w = tensor(graph, node->inputs[1]),
                      *y = tensor(graph, node->outputs[0]);
  struct cpu_kernel kernel = {0};
  TRY(make_somehow(state, DNN_BACKWARD_DATA, y, w, x, graph, node, NULL, p, &kernel, &p->outputs[0],
                   &p->inputs[0]));
  p->inputs[1] = packed(dnn_weights(kernel.primitive));
  if (node->attributes.bias) p->inputs[2] = ROW_MAJOR;
  kernel.b = activation_of(y, p->outputs[0]);
  return cpu_finish(state, p, run_conv_transposed, kernel);
}

/* ---- Linear ---- */

static neap_status run_linear(const struct kernel *kernel, void *const *in, void *const *out, void *workspace,
                              const struct run_context *context) {
  (void)context;
  void *bias = kernel_node(kernel)->attributes.bias ? in[2] : NULL;
  return dnn_run(
      cpu_kernel(kernel)->primitive,
      &(struct dnn_operands){.a = in[0], .b = in[1], .c = out[0], .bias = bias, .scratchpad = workspace});
}

/* c = a b with both inputs in this order. */
static neap_status run_product(const struct kernel *kernel, void *const *in, void *const *out,
                               void *workspace, const struct run_context *context) {
  (void)context;
  return dnn_run(cpu_kernel(kernel)->primitive,
                 &(struct dnn_operands){.a = in[0], .b = in[1], .c = out[0], .scratchpad = workspace});
}

/* dx = dy w from inputs w, dy; dw = dy^T x from inputs x, dy. */
static neap_status run_product_swapped(const struct kernel *kernel, void *const *in, void *const *out,
                                       void *workspace, const struct run_context *context) {
  return run_product(kernel, (void *const[]){in[1], in[0]}, out, workspace, context);
}

static neap_status prepare_product(struct cpu *cpu, struct preparation *p, kernel_run *run, int64_t m,
                                   int64_t n, int64_t k, bool a_transposed, bool b_transposed, bool bias) {
  struct cpu_kernel kernel = {0};
  for (int i = 0; i < 3; i++) p->inputs[i] = ROW_MAJOR;
  TRY(dnn_make_matmul(cpu->dnn, m, n, k, a_transposed, b_transposed, bias, &kernel.primitive));
  p->workspace = dnn_scratchpad_bytes(kernel.primitive);
  return cpu_finish(cpu, p, run, kernel);
}

neap_status prepare_linear(void *state, const struct neap_graph *graph, const struct node *node,
                           struct preparation *p) {
  const struct tensor *x = tensor(graph, node->inputs[0]), *w = tensor(graph, node->inputs[1]);
  return prepare_product(state, p, run_linear, x->dims[0], w->dims[0], w->dims[1], false, true,
                         node->attributes.bias);
}

neap_status prepare_linear_backward_data(void *state, const struct neap_graph *graph, const struct node *node,
                                         struct preparation *p) {
  const struct tensor *w = tensor(graph, node->inputs[0]), *dy = tensor(graph, node->inputs[1]);
  return prepare_product(state, p, run_product_swapped, dy->dims[0], w->dims[1], w->dims[0], false, false,
                         false);
}

neap_status prepare_linear_backward_weights(void *state, const struct neap_graph *graph,
                                            const struct node *node, struct preparation *p) {
  const struct tensor *x = tensor(graph, node->inputs[0]), *dy = tensor(graph, node->inputs[1]);
  return prepare_product(state, p, run_product_swapped, dy->dims[1], x->dims[1], x->dims[0], true, false,
                         false);
}

/* ---- Reorder ---- */

static neap_status run_packed_reorder(const struct kernel *kernel, void *const *in, void *const *out,
                                      void *workspace, const struct run_context *context) {
  (void)context;
  return dnn_run(cpu_kernel(kernel)->primitive,
                 &(struct dnn_operands){.a = in[0], .c = out[0], .scratchpad = workspace});
}

static neap_status run_reorder(const struct kernel *kernel, void *const *in, void *const *out,
                               void *workspace, const struct run_context *context) {
  (void)workspace, (void)context;
  cpu_kernel(kernel)->kernels->reorder(cpu_kernel(kernel)->a, cpu_kernel(kernel)->b, in[0], out[0]);
  return NEAP_OK;
}

neap_status prepare_reorder(void *state, const struct neap_graph *graph, const struct node *node,
                            struct preparation *p) {
  struct cpu *cpu = state;
  struct cpu_kernel kernel = {0};
  const struct dnn_layout *from = p->inputs[0].packed, *to = p->outputs[0].packed;
  if (from == NULL && to == NULL) {
    const struct tensor *x = tensor(graph, node->inputs[0]);
    RETURN_IF(x->dtype != NEAP_F32, NEAP_UNSUPPORTED, "Reorder '%s': only f32 is reordered", node->name);
    kernel.a = activation_of(x, p->inputs[0]);
    kernel.b = activation_of(x, p->outputs[0]);
    return cpu_finish(cpu, p, run_reorder, kernel);
  }
  if (from == NULL) TRY(dnn_layout_unpacked(cpu->dnn, to, &from));
  if (to == NULL) TRY(dnn_layout_unpacked(cpu->dnn, from, &to));
  TRY(dnn_make_reorder(cpu->dnn, from, to, &kernel.primitive));
  p->workspace = dnn_scratchpad_bytes(kernel.primitive);
  return cpu_finish(cpu, p, run_packed_reorder, kernel);
}
