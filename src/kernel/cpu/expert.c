/* Mixtures of experts. A layer is a product for each expert that has rows, by the kernel of linear layers: an
 * element's bits follow from its own sum alone, so neither the other rows of its expert nor the number of
 * threads change them. Weights on disk are read expert by expert, those without rows not at all. */
#include "kernel/cpu/matmul.h"
#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"
#include "kernel/router.h"

static const struct tensor *tensor(const struct neap_graph *graph, int32_t id) {
  return &graph->tensors.data[id];
}

static neap_status finish(const struct cpu *cpu, const struct node *node, struct preparation *p,
                          kernel_run *run, struct cpu_kernel kernel) {
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  for (int32_t i = 0; i < node->output_count; i++) p->outputs[i] = ROW_MAJOR;
  return cpu_finish(cpu, p, run, kernel);
}

static void *element_of(void *data, neap_dtype dtype, int64_t i) {
  return (unsigned char *)data + dtype_bytes(dtype, (uint64_t)i);
}

/* ---- Rows of floats ---- */

static void widen_row(const struct kernel *kernel, int32_t input, void *const *in, int64_t row, float *to) {
  const struct tensor *t = kernel_input(kernel, input);
  K->widen(t->dtype, t->dims[1], element_of(in[input], t->dtype, row * t->dims[1]), to);
}

static void narrow_row(const struct kernel *kernel, int32_t output, void *const *out, int64_t row,
                       const float *from) {
  const struct tensor *t = kernel_output(kernel, output);
  K->narrow(t->dtype, t->dims[1], from, element_of(out[output], t->dtype, row * t->dims[1]));
}

/* ---- The router ---- */

/* Places in the workspace: scores of a row, shares and their gradients; the experts of all rows, or of one.
 */
struct route_memory {
  double *scores, *shares, *dshares, *dscores;
  float *row;
  int32_t *chosen;
};

static struct route_memory route_memory(void *workspace, int64_t experts, int64_t count) {
  struct route_memory m = {.scores = workspace};
  m.dscores = m.scores + experts;
  m.shares = m.dscores + experts;
  m.dshares = m.shares + count;
  m.row = (float *)(m.dshares + count);
  m.chosen = (int32_t *)(m.row + experts);
  return m;
}

static uint64_t route_bytes(int64_t rows, int64_t experts, int64_t count) {
  return (uint64_t)(2 * experts + 2 * count) * sizeof(double) + (uint64_t)experts * sizeof(float) +
         (uint64_t)(rows * count) * sizeof(int32_t);
}

/* Widens a row of scores, or of the gradients of shares. */
static void take_row(const struct kernel *kernel, int32_t input, void *const *in, int64_t row, float *floats,
                     double *doubles) {
  widen_row(kernel, input, in, row, floats);
  for (int64_t i = 0; i < kernel_input(kernel, input)->dims[1]; i++) doubles[i] = (double)floats[i];
}

static void give_row(const struct kernel *kernel, void *const *out, int64_t row, const double *doubles,
                     float *floats) {
  for (int64_t i = 0; i < kernel_output(kernel, 0)->dims[1]; i++) floats[i] = (float)doubles[i];
  narrow_row(kernel, 0, out, row, floats);
}

RUN(run_route) {
  (void)context;
  const struct route_attributes *a = &ATTRIBUTES.route;
  const int64_t rows = kernel_input(kernel, 0)->dims[0], experts = kernel_input(kernel, 0)->dims[1];
  const struct route_memory m = route_memory(workspace, experts, a->count);
  for (int64_t r = 0; r < rows; r++) {
    take_row(kernel, 0, in, r, m.row, m.scores);
    route_row(m.scores, experts, a->count, a->normalised, m.chosen + r * a->count, m.shares);
    give_row(kernel, out, r, m.shares, m.row);
  }
  route_sort(m.chosen, rows, a->count, experts, out[1], out[2], out[3]);
  return NEAP_OK;
}

CPU_OPERATOR(route, TYPES_FLOAT) {
  const struct tensor *x = tensor(graph, node->inputs[0]);
  p->workspace = route_bytes(x->dims[0], x->dims[1], node->attributes.route.count);
  return finish(state, node, p, run_route, (struct cpu_kernel){0});
}

RUN(run_route_backward) {
  (void)context;
  const struct route_attributes *a = &ATTRIBUTES.route;
  const int64_t rows = kernel_input(kernel, 0)->dims[0], experts = kernel_input(kernel, 0)->dims[1];
  const struct route_memory m = route_memory(workspace, experts, a->count);
  for (int64_t r = 0; r < rows; r++) {
    take_row(kernel, 0, in, r, m.row, m.scores);
    take_row(kernel, 1, in, r, m.row, m.dshares);
    route_row_backward(m.scores, experts, a->count, a->normalised, m.dshares, m.chosen, m.shares, m.dscores);
    give_row(kernel, out, r, m.dscores, m.row);
  }
  return NEAP_OK;
}

CPU_OPERATOR(route_backward, TYPES_FLOAT) {
  const struct tensor *x = tensor(graph, node->inputs[0]);
  p->workspace = route_bytes(1, x->dims[1], node->attributes.route.count);
  return finish(state, node, p, run_route_backward, (struct cpu_kernel){0});
}

/* ---- Linear layers ---- */

/* Rows of an expert that are multiplied at once. */
enum { ROWS_AT_ONCE = 1024 };

/* Prepares a product of up to `rows` rows of an expert. */
static neap_status prepare_rows(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p, kernel_run *run, struct matmul m, int64_t rows,
                                const struct tensor *w) {
  struct cpu_kernel kernel = {0};
  const int64_t most = rows < ROWS_AT_ONCE ? rows : ROWS_AT_ONCE,
                experts = node_input(graph, node, EXPERT_ENDS)->dims[0];
  m.c = tensor(graph, node->outputs[0])->dtype;
  m.threads = cpu->threads;
  m.perturbed = w->perturbed;
  m.m = most;
  TRY(matmul_prepare(cpu->kernels, p->region, &m, &p->workspace, &kernel.product));
  struct product fewer = *kernel.product;
  for (fewer.rows = 1; fewer.rows < most; fewer.rows++) {
    const uint64_t bytes = cpu->kernels->product_workspace(&fewer);
    if (bytes > p->workspace) p->workspace = bytes;
  }
  kernel.sums = (p->workspace + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
  if (is_read_by_rows(w)) {
    p->workspace = kernel.sums + dtype_bytes(w->dtype, (uint64_t)(w->elements / experts));
    p->seconds = roofline_seconds(p->roofline, graph, node) + fetch_seconds(p->roofline, w);
  }
  return finish(cpu, node, p, run, kernel);
}

/* Gives an expert's weights, which are read behind the product's part of the workspace if they are on disk.
 */
static neap_status take_weights(const struct kernel *kernel, int32_t slot, void *const *in, void *workspace,
                                const struct run_context *context, int64_t expert, void **weights) {
  const struct tensor *w = kernel_input(kernel, slot);
  const int64_t rows = w->dims[0] / kernel_input(kernel, EXPERT_ENDS)->dims[0];
  *weights = is_read_by_rows(w) ? (unsigned char *)workspace + cpu_kernel(kernel)->sums
                                : element_of(in[slot], w->dtype, expert * rows * w->dims[1]);
  return is_read_by_rows(w) ? context->rows.read(context->rows.context, w, expert * rows, rows, *weights)
                            : NEAP_OK;
}

/* Multiplies the rows of each expert by its weights; `rows` and `weights`: slots of the inputs. */
static neap_status multiply_rows(const struct kernel *kernel, void *const *in, void *const *out,
                                 void *workspace, const struct run_context *context, int32_t rows,
                                 int32_t weights) {
  const struct tensor *a = kernel_input(kernel, rows), *c = kernel_output(kernel, 0);
  const int32_t *ends = in[EXPERT_ENDS];
  const int64_t experts = kernel_input(kernel, EXPERT_ENDS)->dims[0];
  struct product p = *cpu_kernel(kernel)->product;
  struct noise noise = noise_of(kernel, weights, context);
  for (int64_t e = 0, at = 0; e < experts; e++) {
    void *w = NULL;
    noise.first = e * (kernel_input(kernel, weights)->elements / experts);
    if (ends[e] > at) TRY(take_weights(kernel, weights, in, workspace, context, e, &w));
    for (; at < ends[e]; at += p.rows) {
      p.rows = ends[e] - at < ROWS_AT_ONCE ? ends[e] - at : ROWS_AT_ONCE;
      K->product(&p,
                 &(struct product_operands){.a = element_of(in[rows], a->dtype, at * a->dims[1]),
                                            .b = w,
                                            .c = element_of(out[0], c->dtype, at * c->dims[1]),
                                            .noise = noise},
                 workspace);
    }
  }
  return NEAP_OK;
}

RUN(run_expert_linear) {
  return multiply_rows(kernel, in, out, workspace, context, EXPERT_X, EXPERT_WEIGHTS);
}

CPU_OPERATOR(expert_linear, TYPES_FLOAT) {
  const struct tensor *x = tensor(graph, node->inputs[EXPERT_X]),
                      *w = tensor(graph, node->inputs[EXPERT_WEIGHTS]);
  return prepare_rows(state, graph, node, p, run_expert_linear,
                      (struct matmul){.n = tensor(graph, node->outputs[0])->dims[1],
                                      .k = w->dims[1],
                                      .b_transposed = true,
                                      .a = x->dtype,
                                      .b = w->dtype},
                      x->dims[0], w);
}

/* dx = dy w from inputs w, dy, ends. */
RUN(run_expert_linear_backward_data) { return multiply_rows(kernel, in, out, workspace, context, 1, 0); }

CPU_OPERATOR(expert_linear_backward_data, TYPES_FLOAT) {
  const struct tensor *w = tensor(graph, node->inputs[0]), *dy = tensor(graph, node->inputs[1]);
  return prepare_rows(state, graph, node, p, run_expert_linear_backward_data,
                      (struct matmul){.n = w->dims[1], .k = dy->dims[1], .a = dy->dtype, .b = w->dtype},
                      dy->dims[0], w);
}

/* dw = dy^T x from inputs x, dy, ends; zeros for experts without rows. */
RUN(run_expert_linear_backward_weights) {
  (void)context;
  const struct tensor *x = kernel_input(kernel, 0), *dy = kernel_input(kernel, 1),
                      *dw = kernel_output(kernel, 0);
  const int32_t *ends = in[EXPERT_ENDS];
  const int64_t experts = kernel_input(kernel, EXPERT_ENDS)->dims[0];
  struct product p = *cpu_kernel(kernel)->product;
  for (int64_t e = 0, at = 0; e < experts; at = ends[e++]) {
    p.depth = ends[e] - at;
    K->product(&p,
               &(struct product_operands){.a = element_of(in[1], dy->dtype, at * dy->dims[1]),
                                          .b = element_of(in[0], x->dtype, at * x->dims[1]),
                                          .c = element_of(out[0], dw->dtype, e * dw->elements / experts)},
               workspace);
  }
  return NEAP_OK;
}

CPU_OPERATOR(expert_linear_backward_weights, TYPES_FLOAT) {
  struct cpu *cpu = state;
  const struct tensor *x = tensor(graph, node->inputs[0]), *dy = tensor(graph, node->inputs[1]);
  struct cpu_kernel kernel = {0};
  const struct matmul m = {.m = dy->dims[1],
                           .n = x->dims[1],
                           .k = x->dims[0],
                           .a_transposed = true,
                           .a = dy->dtype,
                           .b = x->dtype,
                           .c = tensor(graph, node->outputs[0])->dtype,
                           .threads = cpu->threads};
  TRY(matmul_prepare(cpu->kernels, p->region, &m, &p->workspace, &kernel.product));
  return finish(cpu, node, p, run_expert_linear_backward_weights, kernel);
}

/* ---- What experts give, together ---- */

/* Places in the workspace: a row of the sums, of what an expert gave, and the weights of a row. */
struct sum_memory {
  float *sum, *own, *weights, *dweights;
};

static struct sum_memory sum_memory(void *workspace, int64_t width, int64_t count) {
  float *at = workspace;
  return (struct sum_memory){at, at + width, at + 2 * width, at + 2 * width + count};
}

static uint64_t sum_bytes(int64_t width, int64_t count) {
  return (uint64_t)(2 * width + 2 * count) * sizeof(float);
}

RUN(run_expert_sum) {
  (void)context;
  const int64_t rows = kernel_input(kernel, SUM_WEIGHTS)->dims[0],
                count = kernel_input(kernel, SUM_WEIGHTS)->dims[1],
                width = kernel_input(kernel, SUM_Y)->dims[1];
  const struct sum_memory m = sum_memory(workspace, width, count);
  const int32_t *places = in[SUM_PLACES];
  for (int64_t r = 0; r < rows; r++) {
    widen_row(kernel, SUM_WEIGHTS, in, r, m.weights);
    for (int64_t i = 0; i < count; i++) {
      widen_row(kernel, SUM_Y, in, places[r * count + i], m.own);
      for (int64_t d = 0; d < width; d++) m.sum[d] = (i > 0 ? m.sum[d] : 0) + m.weights[i] * m.own[d];
    }
    narrow_row(kernel, 0, out, r, m.sum);
  }
  return NEAP_OK;
}

CPU_OPERATOR(expert_sum, TYPES_FLOAT) {
  p->workspace = sum_bytes(tensor(graph, node->inputs[SUM_Y])->dims[1],
                           tensor(graph, node->inputs[SUM_WEIGHTS])->dims[1]);
  return finish(state, node, p, run_expert_sum, (struct cpu_kernel){0});
}

RUN(run_expert_sum_backward) {
  (void)context;
  const int64_t rows = kernel_input(kernel, SUM_WEIGHTS)->dims[0],
                count = kernel_input(kernel, SUM_WEIGHTS)->dims[1],
                width = kernel_input(kernel, SUM_Y)->dims[1];
  const struct sum_memory m = sum_memory(workspace, width, count);
  const int32_t *places = in[SUM_PLACES];
  for (int64_t r = 0; r < rows; r++) {
    widen_row(kernel, SUM_WEIGHTS, in, r, m.weights);
    widen_row(kernel, SUM_GRADIENT, in, r, m.sum);
    for (int64_t i = 0; i < count; i++) {
      const int64_t place = places[r * count + i];
      double dot = 0;
      widen_row(kernel, SUM_Y, in, place, m.own);
      for (int64_t d = 0; d < width; d++) {
        dot += (double)m.sum[d] * (double)m.own[d];
        m.own[d] = m.weights[i] * m.sum[d];
      }
      m.dweights[i] = (float)dot;
      narrow_row(kernel, 0, out, place, m.own);
    }
    narrow_row(kernel, 1, out, r, m.dweights);
  }
  return NEAP_OK;
}

CPU_OPERATOR(expert_sum_backward, TYPES_FLOAT) {
  p->workspace = sum_bytes(tensor(graph, node->inputs[SUM_Y])->dims[1],
                           tensor(graph, node->inputs[SUM_WEIGHTS])->dims[1]);
  return finish(state, node, p, run_expert_sum_backward, (struct cpu_kernel){0});
}
