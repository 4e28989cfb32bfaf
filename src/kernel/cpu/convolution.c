/* Convolutions and packed weights: Winograd's convolution, oneDNN's direct ones, and direct ones of our own
 * where oneDNN has none that is fast and takes no memory. */
#include <string.h>

#include "kernel/cpu/direct_convolution.h"
#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"
#include "kernel/cpu/winograd.h"

/* ---- Choosing the algorithm ---- */

static struct activation activation_in(const int64_t dims[4], int64_t lanes, neap_dtype storage) {
  return (struct activation){dims[0], dims[1], dims[2], dims[3], lanes, storage};
}

static double volume(const int64_t dims[4], neap_dtype storage) {
  return (double)(dims[0] * dims[1]) * (double)(dims[2] * dims[3]) * (double)bytes_of(storage);
}

/* Returns the limit on a workspace. No budget below the need of the largest node can be met. A workspace may
 * be a tenth of that, or a third of what the convolution's tensors and kernels leave of it. With more, least
 * budgets of micro-batches rise by a tenth; with less, steps of WRN-28-2 in micro-batches of 10 take half as
 * long again. */
static double most_workspace(const struct cpu *cpu, const struct convolution *c, neap_dtype storage) {
  const double operands =
      volume(c->source, storage) + volume(c->destination, storage) + volume(c->kernel, storage);
  const double least = cpu->largest_node / 10, left = (cpu->largest_node - operands) / 3;
  return left > least ? left : least;
}

/* Returns the number of threads that Winograd's blocks, and so its sums, are divided for: with portable bits
 * one number for all. */
static int divisions(const struct cpu *cpu) {
  enum { PORTABLE = 4 };
  return cpu->portable ? PORTABLE : cpu->threads;
}

/* Returns true if Winograd is to be used, the same for all three passes of a convolution, so that they share
 * the order of the kernels. Depends on the shapes of the graph, the processor and the number of threads, not
 * on plan, variant or budget, as the last bits depend on it; with portable bits on shapes alone. */
static bool wants_winograd(const struct cpu *cpu, const struct convolution *c, neap_dtype storage,
                           struct winograd *w) {
  static const enum winograd_pass passes[] = {[PASS_FORWARD] = WINOGRAD_FORWARD,
                                              [PASS_BACKWARD_DATA] = WINOGRAD_BACKWARD_DATA,
                                              [PASS_BACKWARD_WEIGHTS] = WINOGRAD_BACKWARD_WEIGHTS};
  if (cpu->convolution == NEAP_CONV_DIRECT || c->stride != 1 || c->dilation != 1 || c->groups != 1)
    return false;
  const struct activation x = activation_in(c->source, c->source_lanes, storage),
                          y = activation_in(c->destination, c->destination_lanes, storage);
  const double most = most_workspace(cpu, c, storage),
               speed = cpu->portable ? 1 : dnn_convolution_speed(storage == NEAP_BF16);
  if (!winograd_takes(x, y, c->kernel[2], c->kernel[3])) return false;
  struct winograd plans[WINOGRAD_PASSES];
  const bool fit = winograd_plan(x, y, c->padding[0], c->padding[1], divisions(cpu), most, plans);
  *w = plans[passes[c->pass]];
  w->threads = cpu->threads;
  return cpu->convolution == NEAP_CONV_WINOGRAD || (fit && winograd_pays(plans, speed));
}

/* Makes Winograd's or oneDNN's convolution. */
static neap_status make(struct cpu *cpu, const struct convolution *c, neap_dtype storage,
                        struct preparation *p, struct cpu_kernel *kernel) {
  struct winograd winograd;
  if (wants_winograd(cpu, c, storage, &winograd)) {
    kernel->winograd = region_copy(p->region, &winograd, 1, sizeof winograd);
    RETURN_IF_NULL(kernel->winograd);
    p->workspace = winograd_workspace(&winograd);
    p->seconds = winograd_flops(&winograd) / p->roofline->f32_flops;
    return NEAP_OK;
  }
  RETURN_IF(cpu->portable || storage == NEAP_F16 || (storage == NEAP_BF16 && !dnn_has_bf16()),
            NEAP_UNSUPPORTED, "oneDNN has no fast convolution for this type");
  TRY(dnn_make_convolution(cpu->dnn, c, NULL, &kernel->primitive));
  p->workspace = dnn_scratchpad_bytes(kernel->primitive);
  return NEAP_OK;
}

/* A pass of oneDNN's, its operands, and where their formats go. */
struct wanted {
  enum convolution_pass pass;
  const struct tensor *x, *w, *y;
  struct memory_format *source, *destination;
};

static struct convolution describe(const struct wanted *wanted, const struct node *node) {
  const struct conv_attributes *a = &node->attributes.conv;
  const bool forward = node->op == OP_CONV, exchanged = !forward && wanted->pass == PASS_FORWARD;
  struct convolution c = {.pass = wanted->pass,
                          .bias = forward && node->inputs[CONV_BIAS] != NO_TENSOR,
                          .addend = exchanged || (forward && node->inputs[CONV_ADDEND] != NO_TENSOR),
                          .exchanged = exchanged,
                          .bf16 = wanted->x->dtype == NEAP_BF16,
                          .stride = a->stride,
                          .padding = {a->padding[0], a->padding[1]},
                          .dilation = a->dilation,
                          .groups = a->groups};
  memcpy(c.source, wanted->x->dims, sizeof c.source);
  memcpy(c.destination, wanted->y->dims, sizeof c.destination);
  memcpy(c.kernel, wanted->w->dims, sizeof c.kernel);
  if (exchanged) {
    c.kernel[0] = wanted->w->dims[1];
    c.kernel[1] = wanted->w->dims[0];
  }
  return c;
}

/* Makes the kernel in the formats that the graph prefers, else in channels last, else row-major: the first in
 * which Winograd's or oneDNN's convolution is there. If none is, takes our own; of 16 bits it takes none,
 * since f32 piece by piece is better. */
static neap_status choose_convolution(struct cpu *cpu, const struct wanted *wanted, const struct node *node,
                                      struct preparation *p, struct cpu_kernel *kernel) {
  const struct tensor *x = wanted->x, *y = wanted->y;
  const neap_dtype storage = x->dtype;
  struct convolution c = describe(wanted, node);
  const struct memory_format last[2] = {{.lanes = x->dims[1]}, {.lanes = y->dims[1]}};
  const struct {
    struct memory_format source, destination;
  } choices[] = {
      {preferred_format(cpu, x), preferred_format(cpu, y)}, {last[0], last[1]}, {ROW_MAJOR, ROW_MAJOR}};
  neap_status status = NEAP_UNSUPPORTED;
  for (size_t i = 0; i < sizeof choices / sizeof *choices && status == NEAP_UNSUPPORTED; i++) {
    c.source_lanes = choices[i].source.lanes;
    c.destination_lanes = choices[i].destination.lanes;
    c.blocks = choices[i].source.blocks || choices[i].destination.blocks;
    *wanted->source = choices[i].source;
    *wanted->destination = choices[i].destination;
    status = make(cpu, &c, storage, p, kernel);
  }
  if (status != NEAP_UNSUPPORTED || storage != NEAP_F32) return status;
  c.source_lanes = x->dims[1];
  c.destination_lanes = y->dims[1];
  c.blocks = false;
  *wanted->source = last[0];
  *wanted->destination = last[1];
  return direct_convolution_prepare(cpu->kernels, cpu->threads, p->region, &c, &p->workspace,
                                    &kernel->direct);
}

/* Runs a direct convolution. */
static neap_status convolve(const struct cpu_kernel *k, const struct convolution_operands *operands) {
  if (k->direct == NULL) return dnn_run(k->primitive, operands);
  direct_convolution_run(k->direct, k->kernels, operands);
  return NEAP_OK;
}

static struct memory_format weights_format(const struct cpu_kernel *kernel) {
  const struct dnn_layout *packed = kernel->primitive != NULL ? dnn_weights(kernel->primitive) : NULL;
  return packed == NULL ? ROW_MAJOR : (struct memory_format){.packed = packed};
}

static const struct tensor *tensor(const struct neap_graph *graph, int32_t id) {
  return &graph->tensors.data[id];
}

/* ---- Convolution ---- */

/* Copies the addend, if given, to the result, to which oneDNN adds. */
static void begin_sum(const struct cpu_kernel *k, void *addend, void *sum) {
  const neap_dtype storage = k->b.storage;
  if (addend != NULL && addend != sum)
    k->kernels->convert(stored_elements(k->b), (struct stored){storage, addend},
                        (struct stored){storage, sum});
}

static neap_status run_conv(const struct kernel *kernel, void *const *in, void *const *out, void *workspace,
                            const struct run_context *context) {
  (void)context;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  if (k->winograd != NULL) {
    winograd_convolve(k->winograd, k->kernels, in[CONV_X], in[CONV_WEIGHTS], in[CONV_BIAS], in[CONV_ADDEND],
                      out[0], workspace);
    return NEAP_OK;
  }
  begin_sum(k, in[CONV_ADDEND], out[0]);
  return convolve(k, &(struct convolution_operands){.a = in[CONV_X],
                                                    .b = in[CONV_WEIGHTS],
                                                    .c = out[0],
                                                    .bias = in[CONV_BIAS],
                                                    .scratchpad = workspace});
}

CPU_OPERATOR(conv, TYPE_F32, .alike = TYPES_HALF) {
  struct cpu *cpu = state;
  const struct tensor *x = tensor(graph, node->inputs[0]), *w = tensor(graph, node->inputs[1]),
                      *y = tensor(graph, node->outputs[0]);
  struct cpu_kernel kernel = {0};
  TRY(choose_convolution(cpu, &(struct wanted){PASS_FORWARD, x, w, y, &p->inputs[0], &p->outputs[0]}, node, p,
                         &kernel));
  p->inputs[1] = weights_format(&kernel);
  p->inputs[CONV_ADDEND] = p->outputs[0];
  p->inputs[CONV_BIAS] = ROW_MAJOR;
  kernel.b = activation_of(y, p->outputs[0]);
  return cpu_finish(cpu, p, run_conv, kernel);
}

/* Inputs w, dy, addend -> dx: a convolution of dy, since oneDNN's gradients cannot add. */
static neap_status run_product_backward_data(const struct kernel *kernel, void *const *in, void *const *out,
                                             void *workspace, const struct run_context *context) {
  (void)context;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  begin_sum(k, in[CONV_BACK_ADDEND], out[0]);
  return convolve(
      k, &(struct convolution_operands){
             .a = in[CONV_BACK_GRADIENT], .b = in[CONV_BACK_WEIGHTS], .c = out[0], .scratchpad = workspace});
}

/* Inputs w, dy -> dx; oneDNN's operands are dx, w, dy. */
static neap_status run_backward_data(const struct kernel *kernel, void *const *in, void *const *out,
                                     void *workspace, const struct run_context *context) {
  (void)context;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  if (k->winograd != NULL) {
    winograd_convolve(k->winograd, k->kernels, in[1], in[0], NULL, NULL, out[0], workspace);
    return NEAP_OK;
  }
  return convolve(
      k, &(struct convolution_operands){.a = out[0], .b = in[0], .c = in[1], .scratchpad = workspace});
}

CPU_OPERATOR(conv_backward_data, TYPE_F32, .alike = TYPES_HALF) {
  struct cpu *cpu = state;
  const struct tensor *w = tensor(graph, node->inputs[CONV_BACK_WEIGHTS]),
                      *dy = tensor(graph, node->inputs[CONV_BACK_GRADIENT]),
                      *dx = tensor(graph, node->outputs[0]);
  struct memory_format *of_dy = &p->inputs[CONV_BACK_GRADIENT];
  const bool sum = node->inputs[CONV_BACK_ADDEND] != NO_TENSOR;
  struct cpu_kernel kernel = {0};
  if (sum)
    TRY(choose_convolution(cpu, &(struct wanted){PASS_FORWARD, dy, w, dx, of_dy, &p->outputs[0]}, node, p,
                           &kernel));
  else
    TRY(choose_convolution(cpu, &(struct wanted){PASS_BACKWARD_DATA, dx, w, dy, &p->outputs[0], of_dy}, node,
                           p, &kernel));
  p->inputs[CONV_BACK_WEIGHTS] = weights_format(&kernel);
  p->inputs[CONV_BACK_ADDEND] = p->outputs[0];
  kernel.b = activation_of(dx, p->outputs[0]);
  return cpu_finish(cpu, p, sum ? run_product_backward_data : run_backward_data, kernel);
}

/* Inputs x, dy -> dw. */
static neap_status run_backward_weights(const struct kernel *kernel, void *const *in, void *const *out,
                                        void *workspace, const struct run_context *context) {
  (void)context;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  if (k->winograd != NULL) {
    winograd_backward_weights(k->winograd, k->kernels, in[0], in[1], out[0], workspace);
    return NEAP_OK;
  }
  return convolve(
      k, &(struct convolution_operands){.a = in[0], .b = out[0], .c = in[1], .scratchpad = workspace});
}

CPU_OPERATOR(conv_backward_weights, TYPE_F32, .alike = TYPES_HALF) {
  struct cpu *cpu = state;
  const struct tensor *x = tensor(graph, node->inputs[0]), *dy = tensor(graph, node->inputs[1]),
                      *dw = tensor(graph, node->outputs[0]);
  struct cpu_kernel kernel = {0};
  TRY(choose_convolution(cpu,
                         &(struct wanted){PASS_BACKWARD_WEIGHTS, x, dw, dy, &p->inputs[0], &p->inputs[1]},
                         node, p, &kernel));
  p->outputs[0] = weights_format(&kernel);
  return cpu_finish(cpu, p, run_backward_weights, kernel);
}

/* ---- Transposed convolution ---- */

/* Inputs x, w, [bias]; oneDNN's operands are those of a gradient by the input: y, w, x. */
static neap_status run_conv_transposed(const struct kernel *kernel, void *const *in, void *const *out,
                                       void *workspace, const struct run_context *context) {
  (void)context;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  if (k->winograd != NULL) {
    winograd_convolve(k->winograd, k->kernels, in[0], in[1], in[2], NULL, out[0], workspace);
    return NEAP_OK;
  }
  TRY(convolve(k,
               &(struct convolution_operands){.a = out[0], .b = in[1], .c = in[0], .scratchpad = workspace}));
  if (in[2] != NULL) k->kernels->bias_add(k->b, in[2], out[0]);
  return NEAP_OK;
}

CPU_OPERATOR(conv_transposed, TYPE_F32, .alike = TYPES_HALF) {
  const struct tensor *x = tensor(graph, node->inputs[0]), *w = tensor(graph, node->inputs[1]),
                      *y = tensor(graph, node->outputs[0]);
  struct cpu_kernel kernel = {0};
  TRY(choose_convolution(state, &(struct wanted){PASS_BACKWARD_DATA, y, w, x, &p->outputs[0], &p->inputs[0]},
                         node, p, &kernel));
  RETURN_IF(kernel.primitive != NULL && x->dtype != NEAP_F32 && node->inputs[2] != NO_TENSOR,
            NEAP_UNSUPPORTED, "a transposed convolution of 16 bits has no kernel that adds a bias");
  p->inputs[1] = weights_format(&kernel);
  p->inputs[2] = ROW_MAJOR;
  kernel.b = activation_of(y, p->outputs[0]);
  return cpu_finish(state, p, run_conv_transposed, kernel);
}

/* ---- Reorder ---- */

static neap_status run_packed_reorder(const struct kernel *kernel, void *const *in, void *const *out,
                                      void *workspace, const struct run_context *context) {
  (void)context;
  return dnn_run(cpu_kernel(kernel)->primitive,
                 &(struct convolution_operands){.a = in[0], .c = out[0], .scratchpad = workspace});
}

static neap_status run_reorder(const struct kernel *kernel, void *const *in, void *const *out,
                               void *workspace, const struct run_context *context) {
  (void)workspace, (void)context;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  if (bytes_of(k->a.storage) == sizeof(float))
    k->kernels->reorder(k->a, k->b, in[0], out[0]);
  else
    k->kernels->reorder_half(k->a, k->b, in[0], out[0]);
  return NEAP_OK;
}

/* Returns true if oneDNN packs the tensor: f32, or bf16 if it multiplies it. */
static bool is_packed(const struct neap_graph *graph, const struct node *node, const struct preparation *p) {
  (void)graph, (void)node;
  return p->inputs[0].packed != NULL || p->outputs[0].packed != NULL;
}

CPU_OPERATOR(reorder, TYPES_FLOAT, .alike = TYPE_BF16, .multiplies = true, .converts = is_packed) {
  struct cpu *cpu = state;
  struct cpu_kernel kernel = {0};
  const struct dnn_layout *from = p->inputs[0].packed, *to = p->outputs[0].packed;
  if (from == NULL && to == NULL) {
    const struct tensor *x = tensor(graph, node->inputs[0]);
    kernel.a = activation_of(x, p->inputs[0]);
    kernel.b = activation_of(x, p->outputs[0]);
    return cpu_finish(cpu, p, run_reorder, kernel);
  }
  if (from == NULL) TRY(dnn_layout_unpacked(cpu->dnn, to, &from));
  if (to == NULL) TRY(dnn_layout_unpacked(cpu->dnn, from, &to));
  TRY(dnn_make_reorder(cpu->dnn, from, to, tensor(graph, node->inputs[0])->dtype == NEAP_BF16,
                       &kernel.primitive));
  p->workspace = dnn_scratchpad_bytes(kernel.primitive);
  return cpu_finish(cpu, p, run_packed_reorder, kernel);
}
