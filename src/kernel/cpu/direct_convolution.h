/* Direct convolutions of f32 in channels last, by products of our own over windows of pixels. Kernels are
 * row-major. An element's bits follow from its window alone, not from the number of images. */
#ifndef NEAP_KERNEL_CPU_DIRECT_CONVOLUTION_H
#define NEAP_KERNEL_CPU_DIRECT_CONVOLUTION_H

#include "base/region.h"
#include "kernel/cpu/convolution_shape.h"
#include "kernel/cpu/isa/kernels.h"

struct direct_convolution;

/* Makes one in a region, and gives its workspace. NEAP_UNSUPPORTED: another type or another layout. */
neap_status direct_convolution_prepare(const struct cpu_kernels *kernels, int threads, struct region *region,
                                       const struct convolution *c, uint64_t *workspace,
                                       const struct direct_convolution **out);
void direct_convolution_run(const struct direct_convolution *c, const struct cpu_kernels *kernels,
                            const struct convolution_operands *operands);

#endif
