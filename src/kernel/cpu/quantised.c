/* Quantised parameters, and values in blocks of few bits, on the CPU. */
#include "kernel/cpu/operator.h"
#include "kernel/cpu/typed.h"

/* Returns the number of elements, in whatever layout. */
static uint64_t elements_in(const struct tensor *t, struct memory_format format) {
  struct tensor f32 = *t;
  f32.dtype = NEAP_F32;
  return cpu_backend.format_bytes(&f32, format) / sizeof(float);
}

RUN(run_dequantise) {
  UNUSED;
  const struct cpu_kernel *k = cpu_kernel(kernel);
  k->kernels->dequantise(kernel_input(kernel, 0)->dtype, (int64_t)k->count, in[0],
                         stored_output(kernel, out));
  return NEAP_OK;
}
CPU_OPERATOR(dequantise, TYPES_FLOAT) {
  p->outputs[0] = p->inputs[0];
  return cpu_finish(state, p, run_dequantise,
                    (struct cpu_kernel){.count = elements_in(node_input(graph, node, 0), p->inputs[0])});
}

/* Blocks have elements as they lie in memory. The layout has no lanes that fill up channels: they would not
 * stay 0. */
RUN(run_compress) {
  (void)workspace;
  const struct random_key key = {context->seed ^ random_name(RANDOM_NO_NAME, kernel_node(kernel)->name),
                                 compress_stream(run_draw(context))};
  K->compress(kernel_output(kernel, 0)->dtype, (int64_t)cpu_kernel(kernel)->count, key,
              stored_input(kernel, in, 0), out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(compress, TYPES_FLOAT) {
  const struct tensor *x = node_input(graph, node, 0);
  if (x->rank >= 2 && x->dims[1] % p->inputs[0].lanes != 0)
    p->inputs[0] = (struct memory_format){.lanes = x->dims[1]};
  p->outputs[0] = p->inputs[0];
  return cpu_finish(state, p, run_compress, (struct cpu_kernel){.count = elements_in(x, p->inputs[0])});
}
