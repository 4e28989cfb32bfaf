/* Neap's own CPU kernels: f32, vectorised, OpenMP. Every .c file of this folder is compiled once for each
 * instruction set (NEAP_ISA = generic, avx2, avx512, avx512_bf16, amx_bf16) and exports one table of
 * functions for it. cpu_kernels_best chooses the best table for the processor at run time.
 *
 * All kernels: they neither allocate nor fail. Results depend only on the arguments and the number of OpenMP
 * threads, never on addresses, and are bit-equal from call to call. Buffers are 64-byte aligned. Where a
 * comment says "in place", the two buffers may be the same one, and the result is bit-equal to that of two
 * buffers; otherwise buffers do not overlap. Padding channels of a blocked tensor (channels not a multiple
 * of `lanes`) are written as 0. */
#ifndef NEAP_KERNEL_CPU_ISA_KERNELS_H
#define NEAP_KERNEL_CPU_ISA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attention_pattern.h"
#include "base/dtype.h"
#include "base/rotary.h"
#include "base/status.h"

/* Cases of a switch: the types that these kernels do not compute with. Their elements have 0 bytes here, are
 * read as NaN and are never written. All arithmetic is in f32. */
#define CASES_WITHOUT_FLOATS                                                                                 \
  CASES_NOT_REAL:                                                                                            \
  case NEAP_F64

/* Returns the bytes of an element. */
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

/* Contiguous elements. */
struct stored {
  neap_dtype storage;
  void *data;
};

/* The layout of a tensor [images, channels, pixels...] in memory: channel c of pixel p of image n is at
 *     ((n * blocks + c / lanes) * pixels + p) * lanes + c % lanes,   blocks = ceil(channels / lanes).
 * lanes = 1: row-major (NCHW); lanes = channels: channels last (NHWC); 8 or 16: channel blocks (nChw16c). */
struct activation {
  int64_t images, channels, height, width, lanes; /* pixels = height * width */
  neap_dtype storage;                             /* in kernels that take the tensor as `void *` */
};

/* (x - mean) / sqrt(variance + epsilon) * gamma + beta, by channel; clipped to [0, ceiling] if that is not 0.
 */
struct batch_norm {
  const float *mean, *variance, *gamma, *beta;
  float epsilon, ceiling;
  bool fixed; /* no gradient passes through mean and variance */
};

/* The gradients of a normalisation. */
struct norm_gradients {
  void *dx;
  float *dgamma, *dbeta;
};

/* Running averages of mean and variance, and the part of a step that changes them. */
struct running_averages {
  float *mean, *variance, momentum;
  int64_t count; /* of the elements of a channel */
  int32_t micro_batch, micro_batches;
};

/* The elements of a sparse tensor, in memory order, that have values. bits: one bit an element, the first of
 * eight the lowest. If `bits` is NULL: ends[b] counts the values in the blocks of 2^16 elements up to and
 * including b, and indices[] has the element of each value in its block, ascending. */
struct positions {
  const uint8_t *bits;
  const int32_t *ends;
  const uint16_t *indices;
};

/* Returns the elements in memory, padding channels included. */
static inline int64_t stored_elements(struct activation a) {
  return a.images * ((a.channels + a.lanes - 1) / a.lanes * a.lanes) * a.height * a.width;
}

struct window { /* of pooling */
  int64_t size, stride, padding;
  bool count_padding; /* average pooling: padding counts as pixels */
  bool relu;          /* max pooling: applies ReLU before it */
};

struct response { /* of local response normalisation */
  int64_t size;
  float alpha, beta, k;
};

/* Key of the generator Philox4x32-10 (Salmon et al. 2011), which is evaluated at counters: element i of a
 * draw uses word i % 4 of counter i / 4. */
struct random_key {
  uint64_t seed;
  uint64_t stream; /* step, micro-batch and node, packed by the caller */
};

/* Noise of a tensor: element i gets scale * z(i), z(i) the normal number that `key` has for the counter i / 4
 * (kernel/random_stream.h). A scale of 0: none. */
struct noise {
  struct random_key key;
  float scale;
  int64_t first; /* the place in the tensor of the first element of the data */
};

/* A loss is the sum of LOSS_PARTS parts of the rows; struct loss_part has the sums of one part. */
enum { LOSS_PARTS = 64 };
enum {
  SQUARE_PARTS = 64
}; /* parts of a sum of squares, each a sum of its own; a rank has whole parts (SHARE_PARTS) */
struct loss_part {
  double loss, weight; /* weight: the sum of the weights of the labels' classes */
  int64_t correct;
};

/* The loss and the right answers of the records before; NULL: 0. */
struct loss_before {
  const float *loss;
  const int32_t *correct;
};

/* The state of a row of logits after some of its classes. */
struct loss_row {
  double sum, total;     /* of e^(x - highest); of x, with label smoothing */
  float highest, wanted; /* wanted: the logit of the label */
  int32_t best;          /* the first class with the highest logit */
};

/* The two pixels that a pixel of a resized axis interpolates: (1 - share) first + share second. */
struct resize_tap {
  int64_t first, second;
  float share;
};

/* Elements that an update changes. Elements of 16 bits are rounded at random by `key` and their place:
 * rounding to the nearest would lose every change below half a step of the type. */
struct updated {
  neap_dtype storage;
  void *data;
  struct random_key key;
  int64_t first; /* the place in the tensor of the first element of `data` */
};

/* The numbers of an optimizer's update, of which each optimizer reads some. */
struct update {
  float unit, rate; /* gradients are in units of `unit` */
  float momentum, beta1, beta2, epsilon, weight_decay;
  float origin; /* what weight decay draws to */
  bool nesterov;
  int64_t step;       /* the number of the update, from 1 */
  struct noise noise; /* the gradient, where none is given */
};

struct scalars { /* attributes of an operator of one tensor */
  float a, b;
};

/* The dimensions of a result in row-major order, and the strides of the operands along each; a stride is 0
 * where an operand is broadcast. */
struct strides {
  int32_t rank;
  int64_t dims[8], x[8], y[8];
};

/* A row-major tensor around one axis, of which `count` elements are taken. */
struct taken {
  int64_t outer, size, count, inner;
};

/* Axes of a row-major tensor; bit i of `summed` says whether axis i is summed. */
struct sum_axes {
  int32_t rank;
  int64_t dims[8];
  uint32_t summed;
};

/* Rows of a table [rows, width], chosen by `count` ids. */
struct gather {
  neap_dtype storage; /* of the table and of the rows that are read */
  int64_t rows, width, count;
  const int32_t *ids;
};

struct row_norm { /* as struct row_norm_attributes (graph/attributes.h) */
  int64_t rows, length, groups, inner;
  float epsilon;
  bool centred;
  neap_dtype storage; /* of x, y, dx and dy; with 16 bits, at most HALF_ROW_LIMIT elements a row */
};
enum { HALF_ROW_LIMIT = 4096 };

/* Attention (neap_attention). Operands are [sequences, rows, heads, depth]. The stride of rows, in elements,
 * is query_row for q and dq, key_row for k, v, dk and dv. */
struct attention {
  int64_t sequences, queries, keys, heads, key_heads, depth, query_row, key_row;
  bool causal;
  struct attention_heads patterns;
  float scale, cap, probability; /* cap: scores become cap tanh(score / cap); 0: no cap */
  neap_dtype storage;            /* of all operands except the logarithms */
  struct random_key key;
  int64_t length;      /* of the queries of a sequence, of which `rows` are given; else `queries` */
  const int32_t *rows; /* [queries], ascending, backward; NULL: all */
  bool packed;         /* queries, keys and values lie in one tensor */
  int64_t first;       /* the number of the first sequence in the counters of dropout */
  const int32_t *lengths, *places; /* [sequences], [sequences, queries]; NULL: hide no key */
};

/* The inputs and outputs of attention, and their gradients. */
struct attended {
  const void *q, *k, *v, *y;
  const float *log_sum;
};
struct attention_gradients {
  const void *dy;
  void *dq, *dk, *dv;
};

struct kept_rows { /* of sequences of `length` rows, the same of all */
  int64_t sequences, length, kept;
  const int32_t *rows; /* [kept], ascending */
};

struct rotary { /* as struct rotary_attributes (graph/attributes.h) */
  int64_t sequences, rows, heads, depth, turned, width, first;
  float base;
  bool back;
  struct rotary_scaling scaling;
  const float *divisors;
};

struct labelled { /* rows of logits and their labels */
  int64_t rows, classes, ignored;
  float smoothing;
  const float *weights;  /* of the classes; NULL: all are 1 */
  const int32_t *others; /* a second label for each row; NULL: one label */
  const float *shares;   /* weight of the first label of each row; the second has 1 - share */
};

/* Convolution over time of x [sequences, rows, channels] to y [sequences, times, channels]. Tap k of time t
 * reads row t + k - padding if that is in [0, rows). */
struct sequence_conv {
  int64_t sequences, rows, times, channels, heads, taps;
  int64_t padding; /* negative: y begins at a later time of x */
  bool dynamic;    /* w [sequences, times, heads, taps]; else [heads, taps] */
};

/* Winograd's convolution F(4x4, 3x3) (Lavin and Gray 2016) computes tiles of 4 x 4 pixels from windows of 6
 * x 6. Windows and kernels are transformed to 36 points. There the convolution is one matrix product for
 * each point, over the channels. */
enum { WINOGRAD_TILE = 4, WINOGRAD_POINTS = 36, WINOGRAD_PANEL = 32, WINOGRAD_LANES = 16 };

/* One matrix [rows, columns] for each point: element (r, c) of point p is at
 *     p * point + c / WINOGRAD_PANEL * panel + r * row + c % WINOGRAD_PANEL. */
struct winograd_matrix {
  int64_t row, panel, point;
};

/* Some tiles and channels of an activation. Tile `t` of an image begins at pixel
 *     (t / columns * WINOGRAD_TILE - top, t % columns * WINOGRAD_TILE - left).
 * The matrices have a row for each tile and a column for each channel, rounded up to whole WINOGRAD_LANES.
 * Pixels and channels outside the tensor are 0. */
struct winograd_tiles {
  struct activation a;
  int64_t rows, columns; /* of tiles in an image */
  int64_t top, left;
  int64_t first, count;      /* of the tiles of all images */
  int64_t channel, channels; /* channel: the first, a multiple of WINOGRAD_LANES */
  struct winograd_matrix matrix;
};

/* Some of the kernels [outputs, inputs, 3, 3]. The matrices have a row for each input and a column for each
 * output, rounded up to whole WINOGRAD_LANES. */
struct winograd_weights {
  int64_t outputs, inputs;         /* of all kernels */
  int64_t output_step, input_step; /* strides, in elements */
  bool turned;                     /* kernels rotated by 180 degrees, for the gradient of x */
  int64_t output, output_count;    /* output: the first, a multiple of WINOGRAD_LANES */
  int64_t input, input_count;
  neap_dtype storage; /* of the kernels; their gradient is f32 */
  struct winograd_matrix matrix;
};

/* c [rows, columns] = a [rows, depth] b [depth, columns] for each point; c += a b if `add`. Element (r, d)
 * of a is at r * a_row + d * a_depth of its point, row r of c at r * c_row. b is in panels of contiguous
 * rows. */
struct winograd_product {
  int64_t rows, columns, depth; /* columns: a multiple of WINOGRAD_LANES */
  int64_t a_row, a_depth, a_point, b_panel, b_point, c_row, c_point;
  bool add;
};

/* A tap of a convolution's windows: where its weight is in the kernels, and its pixel's place from that of
 * the window. */
struct product_tap {
  int64_t kernel, y, x;
};

/* A matrix in memory. The first element of row r, and those after it, are at
 *     PLAIN:   r * row + column * c
 *     KERNELS: taps[r / channels].kernel + r % channels * row + column * c
 *     WINDOWS: the row is the window at (y, x) = step * (i, j), place (i, j) of the grid of an image. Column
 * c is channel c % channels of pixel (y, x) + taps[c / channels] of that image; 0 outside. As a result: of
 * one tap. */
struct product_matrix {
  enum product_layout { PRODUCT_PLAIN, PRODUCT_KERNELS, PRODUCT_WINDOWS } kind;
  int64_t row, column;
  const struct product_tap *taps;
  int64_t channels;
  int64_t grid_height, grid_width, step, height, width;
  int64_t pixel;      /* elements from a pixel to the next */
  neap_dtype storage; /* f32, bf16 or f16; of b in a PLAIN matrix also a quantised type */
  bool perturbed;     /* of b in a PLAIN matrix: noise is added to it as it is packed */
};

/* c [rows, columns] = a [rows, depth] b [depth, columns] (+ bias [columns]), added to an addend if `add`.
 * With a batch or groups it is so for each item: a_item and the others have the strides of the items'
 * dimensions; each item has a bias of its own. An element's bits follow from its terms and the processor's
 * instructions alone. They are sums of f32; if a is bf16 and b bf16 or quantised, and the processor
 * multiplies pairs of bf16, of such pairs. */
struct product {
  int32_t rank;
  int64_t dims[6], a_item[6], b_item[6], c_item[6];
  int64_t rows, columns, depth;
  struct product_matrix a, b, c;
  bool a_turned; /* `a` describes the matrix [depth, rows] */
  bool biased, add;
  neap_dtype bias; /* its storage */
  int threads;     /* that work on it; the workspace is for these */
};
struct product_operands {
  const void *a, *b;
  const void *bias, *addend; /* may be NULL; the addend lies as c does, and may be c */
  void *c;
  struct noise noise; /* of b, if that is perturbed */
};

/* Some equations of a triangular system: at most TRIANGULAR_BLOCK. Element (r, c) of x is at r * row + c *
 * column. */
enum { TRIANGULAR_BLOCK = 64 };
struct triangular_block {
  int64_t size, columns, l_row;
  bool transposed;
  int64_t row, column;
};

struct cpu_kernels {
  const char *name;
#define KERNEL(result, name, parameters) result(*name) parameters;
#include "kernel/cpu/isa/kernel_list.h"
#undef KERNEL
};

#endif
