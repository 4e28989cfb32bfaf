#include "kernel/cpu/matmul.h"

/* Describes a matrix [rows, columns], or the matrix whose transpose is stored so. */
static struct product_matrix matrix(int64_t rows, int64_t columns, bool transposed, neap_dtype storage) {
  return transposed ? (struct product_matrix){.row = 1, .column = rows, .storage = storage}
                    : (struct product_matrix){.row = columns, .column = 1, .storage = storage};
}

/* Gives the strides of a batch's dimensions, 0 along those of which the operand has one. */
static void batch_strides(int32_t rank, const int64_t *dims, int64_t stride, int64_t *strides) {
  for (int32_t i = rank - 1; i >= 0; i--) {
    strides[i] = dims[i] == 1 ? 0 : stride;
    stride *= dims[i];
  }
}

struct product matmul_product(const struct matmul *m) {
  struct product p = {.rank = m->batch_rank,
                      .rows = m->m,
                      .columns = m->n,
                      .depth = m->k,
                      .a =
                          m->a_transposed ? matrix(m->k, m->m, false, m->a) : matrix(m->m, m->k, false, m->a),
                      .b = matrix(m->k, m->n, m->b_transposed, m->b),
                      .c = matrix(m->m, m->n, false, m->c),
                      .a_turned = m->a_transposed,
                      .biased = m->biased,
                      .bias = m->bias,
                      .add = m->addend,
                      .threads = m->threads};
  for (int32_t i = 0; i < m->batch_rank; i++)
    p.dims[i] = m->a_batch[i] > m->b_batch[i] ? m->a_batch[i] : m->b_batch[i];
  p.b.perturbed = m->perturbed;
  batch_strides(m->batch_rank, m->a_batch, m->m * m->k, p.a_item);
  batch_strides(m->batch_rank, m->b_batch, m->k * m->n, p.b_item);
  batch_strides(m->batch_rank, p.dims, m->m * m->n, p.c_item);
  return p;
}

neap_status matmul_prepare(const struct cpu_kernels *kernels, struct region *region, const struct matmul *m,
                           uint64_t *workspace, const struct product **out) {
  const struct product p = matmul_product(m);
  const uint64_t bytes = kernels->product_workspace(&p);
  if (bytes > *workspace) *workspace = bytes;
  *out = region_copy(region, &p, 1, sizeof p);
  RETURN_IF_NULL(*out);
  return NEAP_OK;
}
