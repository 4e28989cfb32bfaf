/* Neap's own CPU kernels: f32, vectorised, OpenMP. Every .c file of this folder is compiled once for each
 * instruction set (NEAP_ISA = generic, avx2, avx512, avx512_bf16), and one table of functions per set is
 * exported; the best that the processor has is chosen at run time (cpu_kernels_best).
 *
 * All kernels: no allocation, no failure; results depend on the arguments and the number of OpenMP threads
 * alone, never on addresses, and are bit-equal from call to call. Buffers are 64-byte aligned. Where a
 * comment says "in place", the two buffers may be one and the result is bit-equal to that of two buffers;
 * otherwise buffers do not overlap. Padding channels of a blocked tensor (channels not a multiple of `lanes`)
 * are written as 0. */
#ifndef NEAP_KERNEL_CPU_ISA_KERNELS_H
#define NEAP_KERNEL_CPU_ISA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/rotary.h"
#include "base/status.h"

/* The types whose elements are no numbers to these kernels, as cases of a switch. Here they have no bytes;
 * read as floats they are NaN, and nothing is written to them. All arithmetic is in f32. */
#define CASES_WITHOUT_FLOATS                                                                                 \
  CASES_NOT_REAL:                                                                                            \
  case NEAP_F64

/* Of an element. */
static inline size_t bytes_of(neap_dtype storage) {
  switch (storage) {
  case NEAP_F32:
    return 4;
  case NEAP_BF16:
  case NEAP_F16:
    return 2;
  CASES_WITHOUT_FLOATS:
    break;
  }
  return 0;
}

/* Elements side by side. */
struct stored {
  neap_dtype storage;
  void *data;
};

/* How a tensor [images, channels, pixels...] lies in memory: channel c of pixel p of image n stands at
 *     ((n * blocks + c / lanes) * pixels + p) * lanes + c % lanes,   blocks = ceil(channels / lanes).
 * lanes = 1: row-major (NCHW); lanes = channels: channels last (NHWC); 8 or 16: channel blocks (nChw16c). */
struct activation {
  int64_t images, channels, height, width, lanes; /* pixels = height * width */
  neap_dtype storage;                             /* of kernels that take it as `void *` */
};

/* Which elements of a sparse tensor, as it lies in memory, have values. A bit an element, the first of eight
 * the lowest; or, where `bits` is NULL, ends[b] of the values are those of the blocks of 2^16 elements up to
 * b, and indices[] has each value's element in its block, rising. */
struct positions {
  const uint8_t *bits;
  const int32_t *ends;
  const uint16_t *indices;
};

/* Elements in memory, padding channels included. */
static inline int64_t stored_elements(struct activation a) {
  return a.images * ((a.channels + a.lanes - 1) / a.lanes * a.lanes) * a.height * a.width;
}

struct window { /* of a pooling */
  int64_t size, stride, padding;
  bool count_padding; /* in an average */
  bool relu;          /* in a maximum: with ReLU before it */
};

struct response { /* of local response normalisation */
  int64_t size;
  float alpha, beta, k;
};

/* Philox4x32-10 (Salmon et al. 2011) of a counter: element i of a draw uses word i % 4 of counter i / 4. */
struct random_key {
  uint64_t seed;
  uint64_t stream; /* step, micro-batch and node, packed by the caller */
};

/* The loss over some of the rows. */
enum { LOSS_PARTS = 64 };
enum {
  SQUARE_PARTS = 64
}; /* of a sum of squares, each a sum of its own; ranks have whole ones (SHARE_PARTS) */
struct loss_part {
  double loss, weight; /* weight: of the labels' classes together */
  int64_t correct;
};

/* What is known of a row of logits after some of its classes. */
struct loss_row {
  double sum, total;     /* of e^(x - highest); of x, where labels are smoothed */
  float highest, wanted; /* wanted: the label's */
  int32_t best;          /* the first class that has the highest */
};

/* Where a pixel of a resized axis is read: (1 - share) first + share second. */
struct resize_tap {
  int64_t first, second;
  float share;
};

/* Elements that an update changes. In 16 bits they are rounded at random, by `key` and their place: otherwise
 * what is smaller than half a step of the type would be lost each time. */
struct updated {
  neap_dtype storage;
  void *data;
  struct random_key key;
  int64_t first; /* the place in the tensor of the first element that `data` has */
};

struct scalars { /* attributes of an operator of one tensor */
  float a, b;
};

/* The dimensions of a result in row-major order, and how far apart its neighbours along each lie in the
 * operands; 0 where an operand is broadcast. */
struct strides {
  int32_t rank;
  int64_t dims[8], x[8], y[8];
};

/* Axes of a tensor in row-major order that are summed over: a bit an axis. */
struct sum_axes {
  int32_t rank;
  int64_t dims[8];
  uint32_t summed;
};

struct row_norm { /* as struct row_norm_attributes (graph/attributes.h) */
  int64_t rows, length, groups, inner;
  float epsilon;
  bool centred;
  neap_dtype storage; /* of x, y and their gradients; 16 bits: of at most HALF_ROW_LIMIT elements a row */
};
enum { HALF_ROW_LIMIT = 4096 };

/* Attention (neap_attention). Operands are [sequences, rows, heads, depth], rows of which lie `query_row` and
 * `key_row` elements apart: those of q, dq and of k, v, dk, dv. */
struct attention {
  int64_t sequences, queries, keys, heads, key_heads, depth, query_row, key_row;
  bool causal;
  int64_t window;                /* 0: none; at most queries + keys */
  float scale, cap, probability; /* cap: of scores, cap tanh(score / cap); 0: none */
  neap_dtype storage;            /* of all operands but the logarithms */
  struct random_key key;
  int64_t first;                   /* of the sequences, among those that dropout counts */
  const int32_t *lengths, *places; /* [sequences], [sequences, queries]; NULL: hide no key */
};

struct rotary { /* as struct rotary_attributes (graph/attributes.h) */
  int64_t sequences, rows, heads, depth, turned, first;
  float base;
  bool back;
  struct rotary_scaling scaling;
};

struct labelled { /* rows of logits that have labels */
  int64_t rows, classes, ignored;
  float smoothing;
  const float *weights;  /* of the classes; NULL: all are 1 */
  const int32_t *others; /* a second label for each row; NULL: there is one */
  const float *shares;   /* of the first label of each row; the second has the rest */
};

/* Of x [sequences, rows, channels]: y [sequences, times, channels]. Tap k of time t reads row
 * t + k - padding, where that is in [0, rows). */
struct sequence_conv {
  int64_t sequences, rows, times, channels, heads, taps;
  int64_t padding; /* negative: y begins at a later time of x */
  bool dynamic;    /* w [sequences, times, heads, taps]; else [heads, taps] */
};

/* Winograd's convolution F(4x4, 3x3) (Lavin and Gray 2016): results are made in tiles of 4 x 4 pixels, from
 * windows of 6 x 6. Window and kernel are evaluated at 36 points, where a convolution is a product: one of
 * matrices for each point, over the channels. */
enum { WINOGRAD_TILE = 4, WINOGRAD_POINTS = 36, WINOGRAD_PANEL = 32, WINOGRAD_LANES = 16 };

/* One matrix [rows, columns] for each point: element (r, c) of point p stands at
 *     p * point + c / WINOGRAD_PANEL * panel + r * row + c % WINOGRAD_PANEL. */
struct winograd_matrix {
  int64_t row, panel, point;
};

/* Some tiles and channels of an activation. Tile `t` of an image begins at its pixel
 *     (t / columns * WINOGRAD_TILE - top, t % columns * WINOGRAD_TILE - left).
 * Rows of its matrices are tiles, columns are channels, up to whole WINOGRAD_LANES; pixels and channels that
 * the tensor does not have are 0. */
struct winograd_tiles {
  struct activation a;
  int64_t rows, columns; /* of tiles in an image */
  int64_t top, left;
  int64_t first, count;      /* of the tiles of all images */
  int64_t channel, channels; /* a multiple of WINOGRAD_LANES; a number of channels from there on */
  struct winograd_matrix matrix;
};

/* Some of the kernels [outputs, inputs, 3, 3]. Their matrices have a row for each input and a column for each
 * output, up to whole WINOGRAD_LANES. */
struct winograd_weights {
  int64_t outputs, inputs;         /* of all */
  int64_t output_step, input_step; /* elements from one to the next */
  bool turned;                     /* by half a turn, as in the gradient by data */
  int64_t output, output_count;    /* a multiple of WINOGRAD_LANES; a number of them from there on */
  int64_t input, input_count;
  neap_dtype storage; /* of the kernels; not of their gradient, which is made in f32 */
  struct winograd_matrix matrix;
};

/* c [rows, columns] = a [rows, depth] b [depth, columns] for each point, or c += a b. Element (r, d) of a
 * stands at r * a_row + d * a_depth of its point, that of c at r * c_row; b is in panels with adjacent rows.
 */
struct winograd_product {
  int64_t rows, columns, depth; /* columns: a multiple of WINOGRAD_LANES */
  int64_t a_row, a_depth, a_point, b_panel, b_point, c_row, c_point;
  bool add;
};

struct cpu_kernels {
  const char *name;
#define KERNEL(result, name, parameters) result(*name) parameters;
#include "kernel/cpu/isa/kernel_list.h"
#undef KERNEL
};

#endif
