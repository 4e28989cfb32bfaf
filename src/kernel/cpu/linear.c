/* Linear layers and batches of products, by our own kernel. It takes each operand as it is stored, weights in
 * blocks of a quantised type, too. */
#include "kernel/cpu/matmul.h"
#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"

static const struct tensor *tensor(const struct neap_graph *graph, int32_t id) {
  return &graph->tensors.data[id];
}

static neap_status prepare_product(struct cpu *cpu, const struct neap_graph *graph, const struct node *node,
                                   struct preparation *p, kernel_run *run, struct matmul m) {
  struct cpu_kernel kernel = {0};
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  m.c = tensor(graph, node->outputs[0])->dtype;
  m.threads = cpu->threads;
  TRY(matmul_prepare(cpu->kernels, p->region, &m, &p->workspace, &kernel.product));
  return cpu_finish(cpu, p, run, kernel);
}

/* ---- Linear ---- */

RUN(run_linear) {
  K->product(cpu_kernel(kernel)->product,
             &(struct product_operands){
                 .a = in[0], .b = in[1], .bias = in[2], .c = out[0], .noise = noise_of(kernel, 1, context)},
             workspace);
  return NEAP_OK;
}

CPU_OPERATOR(linear, TYPES_FLOAT) {
  const struct tensor *x = tensor(graph, node->inputs[0]), *w = tensor(graph, node->inputs[1]),
                      *bias = node_input(graph, node, 2);
  return prepare_product(state, graph, node, p, run_linear,
                         (struct matmul){.m = x->dims[0],
                                         .n = w->dims[0],
                                         .k = w->dims[1],
                                         .b_transposed = true,
                                         .a = x->dtype,
                                         .b = w->dtype,
                                         .perturbed = w->perturbed,
                                         .biased = bias != NULL,
                                         .bias = bias != NULL ? bias->dtype : NEAP_F32});
}

/* dx = dy w from inputs w, dy. */
RUN(run_linear_backward_data) {
  (void)context;
  K->product(cpu_kernel(kernel)->product, &(struct product_operands){.a = in[1], .b = in[0], .c = out[0]},
             workspace);
  return NEAP_OK;
}

CPU_OPERATOR(linear_backward_data, TYPES_FLOAT) {
  const struct tensor *w = tensor(graph, node->inputs[0]), *dy = tensor(graph, node->inputs[1]);
  return prepare_product(
      state, graph, node, p, run_linear_backward_data,
      (struct matmul){.m = dy->dims[0], .n = w->dims[1], .k = w->dims[0], .a = dy->dtype, .b = w->dtype});
}

/* dw = addend + dy^T x from inputs x, dy, [addend]. */
RUN(run_linear_backward_weights) {
  (void)context;
  K->product(cpu_kernel(kernel)->product,
             &(struct product_operands){.a = in[1], .b = in[0], .addend = in[2], .c = out[0]}, workspace);
  return NEAP_OK;
}

CPU_OPERATOR(linear_backward_weights, TYPES_FLOAT) {
  const struct tensor *x = tensor(graph, node->inputs[0]), *dy = tensor(graph, node->inputs[1]);
  return prepare_product(state, graph, node, p, run_linear_backward_weights,
                         (struct matmul){.m = dy->dims[1],
                                         .n = x->dims[1],
                                         .k = x->dims[0],
                                         .a_transposed = true,
                                         .a = dy->dtype,
                                         .b = x->dtype,
                                         .addend = node_input(graph, node, 2) != NULL});
}

/* ---- Batches of products ---- */

RUN(run_matmul) {
  (void)context;
  K->product(cpu_kernel(kernel)->product, &(struct product_operands){.a = in[0], .b = in[1], .c = out[0]},
             workspace);
  return NEAP_OK;
}

static int64_t batch_of(const struct tensor *t) {
  return t->elements / (t->dims[t->rank - 2] * t->dims[t->rank - 1]);
}

/* Equal dimensions of batches become one; rows of one matrix each become rows of one matrix. */
CPU_OPERATOR(matmul, TYPES_FLOAT) {
  const struct tensor *a = tensor(graph, node->inputs[0]), *b = tensor(graph, node->inputs[1]),
                      *y = tensor(graph, node->outputs[0]);
  const struct matmul_attributes *flags = &node->attributes.matmul;
  struct matmul m = {.m = y->dims[y->rank - 2],
                     .n = y->dims[y->rank - 1],
                     .k = a->dims[a->rank - (flags->a_transposed ? 2 : 1)],
                     .a_transposed = flags->a_transposed,
                     .b_transposed = flags->b_transposed,
                     .a = a->dtype,
                     .b = b->dtype};
  if (batch_of(b) == 1 && !m.a_transposed) {
    m.m *= batch_of(a);
  } else if (batch_of(a) == batch_of(b) && batch_of(a) == batch_of(y)) {
    m.batch_rank = batch_of(y) > 1;
    m.a_batch[0] = m.b_batch[0] = batch_of(y);
  } else {
    m.batch_rank = y->rank - 2;
    for (int32_t i = 0; i < m.batch_rank; i++) {
      const int32_t at_a = i - (y->rank - a->rank), at_b = i - (y->rank - b->rank);
      m.a_batch[i] = at_a >= 0 ? a->dims[at_a] : 1;
      m.b_batch[i] = at_b >= 0 ? b->dims[at_b] : 1;
    }
  }
  return prepare_product(state, graph, node, p, run_matmul, m);
}
