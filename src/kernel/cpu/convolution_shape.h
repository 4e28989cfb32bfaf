/* The shape of a convolution. */
#ifndef NEAP_KERNEL_CPU_CONVOLUTION_SHAPE_H
#define NEAP_KERNEL_CPU_CONVOLUTION_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

enum convolution_pass { PASS_FORWARD, PASS_BACKWARD_DATA, PASS_BACKWARD_WEIGHTS };

struct convolution {
  enum convolution_pass pass;
  bool bias, addend; /* forward only; with an addend the result is added to the destination's content */
  /* Forward, 1x1 kernels: the caller's kernels are those of the other direction, [channels, filters, 1, 1].
   */
  bool exchanged;
  bool bf16;                         /* so are all operands, if dnn_has_bf16; sums are f32 */
  int64_t source[4], destination[4]; /* [N, C, H, W] */
  int64_t kernel[4];                 /* [filters, channels a group, R, S] */
  int64_t stride, dilation, groups;
  int64_t padding[2];                      /* before the rows, before the columns */
  int64_t source_lanes, destination_lanes; /* adjacent channels (struct activation) */
  bool blocks;                             /* 8 or 16 lanes are channel blocks, not channels last */
};

/* Operands by role: a = source or its gradient, b = kernels or their gradient, c = destination or its
 * gradient. */
struct convolution_operands {
  void *a, *b, *c, *bias, *scratchpad;
};

#endif
