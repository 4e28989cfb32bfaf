/* Products of matrices, by our own kernel (isa/product.c). */
#ifndef NEAP_KERNEL_CPU_MATMUL_H
#define NEAP_KERNEL_CPU_MATMUL_H

#include "base/region.h"
#include "kernel/cpu/isa/kernels.h"

/* c [batch..., m, n] = a [batch..., m, k] b [batch..., k, n] (+ bias [n]); a and b may be stored transposed,
 * all are dense. A dimension of the batch may be 1 in one of the two. */
enum { MATMUL_BATCH_LIMIT = 6 };
struct matmul {
  int32_t batch_rank;
  int64_t a_batch[MATMUL_BATCH_LIMIT], b_batch[MATMUL_BATCH_LIMIT];
  int64_t m, n, k;
  bool a_transposed, b_transposed, biased;
  bool addend;              /* the product is added to the content of c */
  bool perturbed;           /* noise is added to b; only without a batch */
  neap_dtype a, b, c, bias; /* storage; b may be quantised, with whole blocks in a row */
  int threads;
};

struct product matmul_product(const struct matmul *m);

/* Keeps the product in a region, and raises *workspace to the bytes that it needs. */
neap_status matmul_prepare(const struct cpu_kernels *kernels, struct region *region, const struct matmul *m,
                           uint64_t *workspace, const struct product **out);

#endif
