/* A small interface to oneDNN. Only its .c file knows that 2.x and 3.x describe primitives differently. In a
 * build without oneDNN it is one to kernels of our own (products.c). */
#ifndef NEAP_KERNEL_CPU_ONEDNN_H
#define NEAP_KERNEL_CPU_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct dnn;        /* an engine with all layouts and primitives made on it; each distinct one is made once */
struct dnn_layout; /* the memory layout of a tensor with elements of f32; those of bf16 have the same order.
                      Owned by its dnn */
struct dnn_primitive; /* a prepared kernel; owned by its dnn */

neap_status dnn_create(struct dnn **out);
void dnn_free(struct dnn *dnn); /* takes NULL */

/* Gives the row-major layout of the same dimensions. */
neap_status dnn_layout_unpacked(struct dnn *dnn, const struct dnn_layout *packed,
                                const struct dnn_layout **out);
size_t dnn_layout_bytes(const struct dnn_layout *layout);

enum dnn_pass { DNN_FORWARD, DNN_BACKWARD_DATA, DNN_BACKWARD_WEIGHTS };

struct dnn_convolution {
  enum dnn_pass pass;
  bool winograd;     /* oneDNN's own, with which bench/convolution compares ours; 2.x on AVX-512 has it */
  bool plain;        /* accept the slow reference kernel */
  bool bias, addend; /* forward only; with an addend the result is added to the destination's content */
  /* Forward, 1x1 kernels: the caller's kernels are those of the other direction, [channels, filters, 1, 1];
   * dnn_weights gives their layout. */
  bool exchanged;
  bool bf16;                         /* so are all operands, if dnn_has_bf16; sums are f32 */
  int64_t source[4], destination[4]; /* [N, C, H, W] */
  int64_t kernel[4];                 /* [filters, channels a group, R, S] */
  int64_t stride, dilation, groups;
  int64_t padding[2];                      /* before the rows, before the columns */
  int64_t source_lanes, destination_lanes; /* adjacent channels (struct activation) */
  bool blocks;                             /* 8 or 16 lanes are channel blocks, not channels last */
};

/* Makes a convolution. `weights`: the layout that the kernels (or their gradient) must have; NULL: the
 * primitive's own choice, which dnn_weights gives. NEAP_UNSUPPORTED: oneDNN has no such primitive, or (unless
 * `plain`) only its slow reference one. */
neap_status dnn_make_convolution(struct dnn *dnn, const struct dnn_convolution *c,
                                 const struct dnn_layout *weights, const struct dnn_primitive **out);
/* Returns NULL for a convolution whose kernels are row-major. */
const struct dnn_layout *dnn_weights(const struct dnn_primitive *primitive);
/* Returns true if convolutions take channel blocks. */
bool dnn_takes_blocks(void);

/* c [batch..., m, n] = a [batch..., m, k] b [batch..., k, n] (+ bias [n]); a and b may be stored transposed,
 * all are dense. A dimension of the batch may be 1 in one of the two. With an addend the result is added to
 * the content of c. */
enum { DNN_BATCH_LIMIT = 6 };
struct dnn_matmul {
  int32_t batch_rank;
  int64_t a_batch[DNN_BATCH_LIMIT], b_batch[DNN_BATCH_LIMIT];
  int64_t m, n, k;
  int64_t c_stride; /* elements from a row of c to the next; 0: n. Without a batch */
  bool a_transposed, b_transposed, bias;
  bool addend;     /* the product is added to the content of c */
  bool bf16;       /* so are all operands, if dnn_has_bf16; sums are f32 */
  bool f32_result; /* c is f32 even then */
};
/* Returns how many times as fast as f32 direct convolutions of bf16 are, for the three passes together; 0 if
 * the processor or the library cannot multiply bf16. Measured with AVX512_BF16; an estimate for AMX. */
double dnn_bf16_speed(void);
static inline bool dnn_has_bf16(void) { return dnn_bf16_speed() > 0; }
/* The same for any type: a type that is not multiplied as stored is as fast as f32. */
static inline double dnn_convolution_speed(bool bf16) {
  return bf16 && dnn_has_bf16() ? dnn_bf16_speed() : 1;
}
neap_status dnn_make_matmul(struct dnn *dnn, const struct dnn_matmul *m, const struct dnn_primitive **out);

/* y [rows, outputs] = x [rows, inputs] w^T with w [outputs, inputs] packed as the primitive prefers
 * (dnn_weights), added to the content of y with an addend; or, backward by data, x = y w. x and y are
 * dense. */
struct dnn_inner_product {
  enum dnn_pass pass; /* forward or backward by data */
  int64_t rows, outputs, inputs;
  bool addend; /* forward only */
};
neap_status dnn_make_inner_product(struct dnn *dnn, const struct dnn_inner_product *i,
                                   const struct dnn_primitive **out);

/* Makes a reordering of elements of f32, or of bf16 if dnn_has_bf16. */
neap_status dnn_make_reorder(struct dnn *dnn, const struct dnn_layout *from, const struct dnn_layout *to,
                             bool bf16, const struct dnn_primitive **out);

size_t dnn_scratchpad_bytes(const struct dnn_primitive *primitive);
void dnn_describe(const struct dnn_primitive *primitive, char *text,
                  size_t size); /* the same, and the version of oneDNN */

/* Operands by role. Convolution: a = source or its gradient, b = weights or their gradient, c = destination
 * or its gradient; inner product: x, w, y; matmul: a, b, c; reorder: a to c. */
struct dnn_operands {
  void *a, *b, *c, *bias, *scratchpad;
};
neap_status dnn_run(const struct dnn_primitive *primitive, const struct dnn_operands *operands);

#endif
