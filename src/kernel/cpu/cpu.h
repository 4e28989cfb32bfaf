/* The CPU backend: what its files share. */
#ifndef NEAP_KERNEL_CPU_CPU_H
#define NEAP_KERNEL_CPU_CPU_H

#include "kernel/cpu/isa/kernels.h"
#include "kernel/cpu/onednn.h"
#include "kernel/kernel.h"

struct cpu {
  const struct cpu_kernels *kernels;
  struct dnn *dnn;
  int64_t block; /* channels a block: 16, 8; 0: channels last */
  neap_convolution convolution;
  int threads;
  double largest_node; /* bytes of its operands */
};

/* The state of a kernel. */
struct cpu_kernel {
  const struct cpu_kernels *kernels;
  const struct dnn_primitive *primitive; /* NULL: a kernel of our own */
  struct activation a, b;                /* of the operator's main tensors */
  uint64_t count;                        /* elements of a variable, as it lies in memory */
};

typedef neap_status cpu_prepare(void *state, const struct neap_graph *graph, const struct node *node,
                                struct preparation *p);

/* A tensor in a format, as our own kernels see it. Where there is one pixel, channels lie side by side. */
struct activation activation_of(const struct tensor *tensor, struct memory_format format);

/* The format that convolutions of this graph like for a tensor. */
struct memory_format preferred_format(const struct cpu *cpu, const struct tensor *tensor);

/* Sets run and state. */
neap_status cpu_finish(const struct cpu *cpu, struct preparation *p, kernel_run *run,
                       struct cpu_kernel kernel);

static inline const struct cpu_kernel *cpu_kernel(const struct kernel *kernel) { return kernel->state; }

/* convolution.c: with oneDNN */
cpu_prepare prepare_conv, prepare_conv_backward_data, prepare_conv_backward_weights, prepare_linear,
    prepare_linear_backward_data, prepare_linear_backward_weights, prepare_reorder, prepare_conv_transposed;

/* own.c: kernels of our own */
cpu_prepare prepare_batch_norm_statistics, prepare_batch_norm, prepare_batch_norm_backward, prepare_relu,
    prepare_relu_backward, prepare_relu6, prepare_relu6_backward, prepare_add, prepare_bias_backward,
    prepare_max_pool, prepare_max_pool_backward, prepare_average_pool, prepare_average_pool_backward,
    prepare_global_average_pool, prepare_global_average_pool_backward, prepare_softmax_cross_entropy,
    prepare_softmax_cross_entropy_backward, prepare_dropout, prepare_sgd, prepare_adamw,
    prepare_running_statistics, prepare_crop, prepare_crop_backward, prepare_resize, prepare_resize_backward,
    prepare_adaptive_average_pool, prepare_adaptive_average_pool_backward, prepare_relu_mask,
    prepare_relu_mask_backward;

/* channels.c: across channels, with kernels of our own */
cpu_prepare prepare_concat, prepare_slice, prepare_slice_backward, prepare_local_response_norm,
    prepare_local_response_norm_backward;

#endif
