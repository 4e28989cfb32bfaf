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
  struct strides strides;                /* of operands in row-major order */
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

/* One for each operator: prepare_conv, ... */
#define OP(NAME, id) cpu_prepare prepare_##id;
#include "op/list.h"
#undef OP

#endif
