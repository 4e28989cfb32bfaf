#include "kernel/cpu/typed.h"

#include "base/parallel.h"

enum { CHUNK = 2048 }; /* elements: three buffers of them stay in the first-level cache */

static void *at(void *data, neap_dtype dtype, int64_t first) {
  return (unsigned char *)data + dtype_bytes(dtype, (uint64_t)first);
}

void run_typed(const struct kernel *kernel, void *const *in, void *const *out, int64_t count,
               typed_chunk *chunk) {
  const struct cpu_kernels *k = cpu_kernel(kernel)->kernels;
  const struct node *node = kernel_node(kernel);
  const neap_dtype made = kernel_output(kernel, 0)->dtype;
#pragma omp parallel for if (count >= 16 * CHUNK)
  for (int64_t first = 0; first < count; first += CHUNK) {
    float buffers[TYPED_INPUTS + 1][CHUNK];
    const float *operands[TYPED_INPUTS] = {0};
    const int64_t length = count - first < CHUNK ? count - first : CHUNK;
    for (int32_t i = 0; i < node->input_count && i < TYPED_INPUTS; i++) {
      const neap_dtype dtype = kernel_input(kernel, i)->dtype;
      k->widen(storage_of(dtype), length, at(in[i], dtype, first), buffers[i]);
      operands[i] = buffers[i];
    }
    chunk(k, node, length, operands, buffers[TYPED_INPUTS]);
    k->narrow(storage_of(made), length, buffers[TYPED_INPUTS], at(out[0], made, first));
  }
}

bool is_f32(const struct kernel *kernel) {
  bool all = kernel_output(kernel, 0)->dtype == NEAP_F32;
  for (int32_t i = 0; i < kernel_node(kernel)->input_count; i++)
    all = all && kernel_input(kernel, i)->dtype == NEAP_F32;
  return all;
}
