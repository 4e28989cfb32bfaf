#include "kernel/cpu/typed.h"

#include <string.h>

#include "base/parallel.h"

enum { CHUNK = 2048 }; /* elements: three buffers of them stay in the first-level cache */

static void widen(const struct cpu_kernels *k, neap_dtype dtype, const void *data, int64_t first,
                  int64_t count, float *out) {
  if (dtype == NEAP_F32) memcpy(out, (const float *)data + first, (size_t)count * sizeof *out);
  if (dtype == NEAP_BF16) k->bf16_widen(count, (const uint16_t *)data + first, out);
  if (dtype == NEAP_F16) k->f16_widen(count, (const uint16_t *)data + first, out);
}

static void narrow(const struct cpu_kernels *k, neap_dtype dtype, const float *values, int64_t first,
                   int64_t count, void *data) {
  if (dtype == NEAP_F32) memcpy((float *)data + first, values, (size_t)count * sizeof *values);
  if (dtype == NEAP_BF16) k->bf16_narrow(count, values, (uint16_t *)data + first);
  if (dtype == NEAP_F16) k->f16_narrow(count, values, (uint16_t *)data + first);
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
      widen(k, kernel_input(kernel, i)->dtype, in[i], first, length, buffers[i]);
      operands[i] = buffers[i];
    }
    chunk(k, node, length, operands, buffers[TYPED_INPUTS]);
    narrow(k, made, buffers[TYPED_INPUTS], first, length, out[0]);
  }
}

bool is_f32(const struct kernel *kernel) {
  bool all = kernel_output(kernel, 0)->dtype == NEAP_F32;
  for (int32_t i = 0; i < kernel_node(kernel)->input_count; i++)
    all = all && kernel_input(kernel, i)->dtype == NEAP_F32;
  return all;
}

neap_status need_storage(const struct tensor *t) {
  RETURN_IF(t->dtype != NEAP_F32 && t->dtype != NEAP_BF16 && t->dtype != NEAP_F16, NEAP_UNSUPPORTED,
            "there is no kernel for %s", dtype_rows[t->dtype].name);
  return NEAP_OK;
}
