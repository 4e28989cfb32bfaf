/* Images of bytes on our own kernels. */
#include "kernel/cpu/operator.h"

RUN(run_pixels) {
  (void)workspace, (void)context;
  const struct pixels_attributes *a = &ATTRIBUTES.pixels;
  K->pixels(activation_of(kernel_output(kernel, 0), ROW_MAJOR), in[0], in[1], a->mean, a->deviation, out[0]);
  return NEAP_OK;
}
CPU_OPERATOR(pixels, TYPES_FLOAT) {
  (void)graph, (void)node;
  p->inputs[0] = p->inputs[1] = ROW_MAJOR;
  return cpu_finish(state, p, run_pixels, (struct cpu_kernel){0});
}
