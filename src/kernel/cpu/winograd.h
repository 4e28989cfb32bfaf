/* Winograd's convolution F(4x4, 3x3) in blocks that stay in a core's cache: 3 x 3 kernels, stride 1, no
 * dilation, no groups, any padding.
 *
 * A block of tiles is transformed, multiplied by a block of kernels and transformed back, before the next one
 * begins: the memory for transformed tensors does not grow with the batch. Kernels are row-major. Bits depend
 * on shapes, types, values, the instruction set, the number of threads and the blocks. */
#ifndef NEAP_KERNEL_CPU_WINOGRAD_H
#define NEAP_KERNEL_CPU_WINOGRAD_H

#include "kernel/cpu/isa/kernels.h"

enum winograd_pass { WINOGRAD_FORWARD, WINOGRAD_BACKWARD_DATA, WINOGRAD_BACKWARD_WEIGHTS, WINOGRAD_PASSES };

struct winograd { /* the plan of a convolution: computed in f32, whatever the type of its tensors */
  enum winograd_pass pass;
  struct winograd_tiles from, to; /* the tensor of windows, and the tensor of results or their gradient */
  struct winograd_weights weights;
  int64_t tiles;                     /* of all images */
  int64_t most_tiles, tile_block;    /* the limit for a block; the tiles of a block */
  int64_t input_block, output_block; /* channels in a block */
  bool kept;                         /* all kernels are transformed once, first */
  int threads;
  int parts; /* of the tiles, for which the kernels' gradient is summed separately */
};

/* Returns true if a convolution without stride, dilation and groups, with kernels of this many rows and
 * columns, can be done so. Tensors are in blocks of 8 or 16 channels, which a vector does not exceed, or
 * channels last. */
bool winograd_takes(struct activation x, struct activation y, int64_t height, int64_t width);

/* Plans the three passes, by enum winograd_pass. x [N, C, H, W] and y [N, K, H', W'] of the forward pass,
 * which winograd_takes; `top`, `left`: its padding. All tensors have the type of x. Makes blocks smaller if a
 * workspace would exceed this number of bytes; returns false if it does with the smallest blocks too. */
bool winograd_plan(struct activation x, struct activation y, int64_t top, int64_t left, int threads,
                   double most_workspace, struct winograd plans[WINOGRAD_PASSES]);
size_t winograd_workspace(const struct winograd *w); /* bytes */

/* Returns true if the three passes of one winograd_plan() together are faster than direct ones at `speed`
 * times the speed of f32. They must be both as planned and for eight images with any workspace, so that a
 * micro-batch seldom gets other kernels than the complete batch. */
bool winograd_pays(const struct winograd plans[WINOGRAD_PASSES], double speed);
/* Returns the FLOPs of direct convolutions that take as long. */
double winograd_flops(const struct winograd *w);
/* Writes the algorithm, its version, the instruction set and the blocks. */
void winograd_describe(const struct winograd *w, const struct cpu_kernels *k, char *text, size_t size);

/* Makes y of x; or dx of dy, with the same weights [K, C, 3, 3]. bias [channels of the result] and addend,
 * which has the result's format and may be in its place, may be NULL. */
void winograd_convolve(const struct winograd *w, const struct cpu_kernels *k, const void *from,
                       const void *weights, const void *bias, const void *addend, void *to, void *workspace);
/* Makes dw [K, C, 3, 3] of x and dy. */
void winograd_backward_weights(const struct winograd *w, const struct cpu_kernels *k, const void *x,
                               const void *dy, void *dw, void *workspace);

#endif
