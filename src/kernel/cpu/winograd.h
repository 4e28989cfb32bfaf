/* Winograd's convolution F(4x4, 3x3) in blocks that stay in a core's cache: 3 x 3 kernels, stride 1, no
 * dilation, no groups, any padding.
 *
 * A block of tiles is transformed, multiplied by a block of kernels and transformed back, before the next one
 * is begun: what is kept of transformed tensors does not grow with the batch. Kernels are row-major. Bits
 * depend on shapes, types, values, the instruction set, the number of threads and the blocks. */
#ifndef NEAP_KERNEL_CPU_WINOGRAD_H
#define NEAP_KERNEL_CPU_WINOGRAD_H

#include "kernel/cpu/isa/kernels.h"

enum winograd_pass { WINOGRAD_FORWARD, WINOGRAD_BACKWARD_DATA, WINOGRAD_BACKWARD_WEIGHTS, WINOGRAD_PASSES };

struct winograd { /* how a convolution is done: in f32, whatever its tensors are stored as */
  enum winograd_pass pass;
  struct winograd_tiles from, to; /* of what windows are taken from, and of results or their gradient */
  struct winograd_weights weights;
  int64_t tiles;                     /* of all images */
  int64_t most_tiles, tile_block;    /* that a block may have; that one has */
  int64_t input_block, output_block; /* channels of a block */
  bool kept;                         /* all kernels are transformed once, before all else */
  int threads;
  int parts; /* of the tiles, for which the kernels' gradient is summed apart */
};

/* Whether a convolution without stride, dilation and groups, of kernels of this many rows and columns, can be
 * done so. Tensors lie in blocks of 8 or 16 channels, which a vector does not exceed, or channels last. */
bool winograd_takes(struct activation x, struct activation y, int64_t height, int64_t width);

/* How the three passes are done, by enum winograd_pass. x [N, C, H, W] and y [N, K, H', W'] of the forward
 * pass, which winograd_takes; `top`, `left`: its padding. All tensors are stored as x is. Blocks get smaller
 * where a workspace would take more than this many bytes; false: the smallest blocks take more, too. */
bool winograd_plan(struct activation x, struct activation y, int64_t top, int64_t left, int threads,
                   double most_workspace, struct winograd plans[WINOGRAD_PASSES]);
size_t winograd_workspace(const struct winograd *w); /* bytes */

/* Whether the three passes of one winograd_plan() together are faster than direct ones, which are done at
 * `speed` times that of f32: both as they are planned and for eight images with any workspace, so that a
 * micro-batch seldom gets other kernels than the whole batch. */
bool winograd_pays(const struct winograd plans[WINOGRAD_PASSES], double speed);
/* FLOPs that would take as long at the speed of direct convolutions. */
double winograd_flops(const struct winograd *w);
/* The algorithm, its version, the instruction set and the blocks. */
void winograd_describe(const struct winograd *w, const struct cpu_kernels *k, char *text, size_t size);

/* y of x; or dx of dy, with the same weights [K, C, 3, 3]. bias [channels of the result] and addend, which
 * lies as the result and may be in its place, may be NULL. */
void winograd_convolve(const struct winograd *w, const struct cpu_kernels *k, const void *from,
                       const void *weights, const void *bias, const void *addend, void *to, void *workspace);
/* dw [K, C, 3, 3] of x and dy. */
void winograd_backward_weights(const struct winograd *w, const struct cpu_kernels *k, const void *x,
                               const void *dy, void *dw, void *workspace);

#endif
