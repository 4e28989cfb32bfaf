/* oneDNN behind one small interface: the only file that knows that 2.x and 3.x describe primitives
 * differently. */
#ifndef NEAP_KERNEL_CPU_ONEDNN_H
#define NEAP_KERNEL_CPU_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct dnn;        /* an engine with all layouts and primitives made on it; each distinct one is made once */
struct dnn_layout; /* how a tensor lies in memory, of elements of f32; those of bf16 have the same order.
                      Owned by its dnn */
struct dnn_primitive; /* a prepared kernel; owned by its dnn */

neap_status dnn_create(struct dnn **out);
void dnn_free(struct dnn *dnn); /* takes NULL */

/* The row-major layout of the same dimensions. */
neap_status dnn_layout_unpacked(struct dnn *dnn, const struct dnn_layout *packed,
                                const struct dnn_layout **out);
size_t dnn_layout_bytes(const struct dnn_layout *layout);

enum dnn_pass { DNN_FORWARD, DNN_BACKWARD_DATA, DNN_BACKWARD_WEIGHTS };

struct dnn_convolution {
  enum dnn_pass pass;
  bool winograd;     /* what bench/convolution measures ours beside; 2.x on AVX-512 has it */
  bool plain;        /* the slow reference kernel is better than none */
  bool bias, addend; /* forward only; with an addend the result is added to what the destination holds */
  /* Forward, 1x1 kernels: the caller's are those of the other direction, [channels, filters, 1, 1];
   * dnn_weights tells how these lie. */
  bool exchanged;
  bool bf16;                         /* so are all operands, where dnn_has_bf16; sums are f32 */
  int64_t source[4], destination[4]; /* [N, C, H, W] */
  int64_t kernel[4];                 /* [filters, channels a group, R, S] */
  int64_t stride, dilation, groups;
  int64_t padding[2];                      /* before the rows, before the columns */
  int64_t source_lanes, destination_lanes; /* channels side by side (struct activation) */
  bool blocks;                             /* 8 or 16 lanes are channel blocks, not channels last */
};

/* `weights`: the layout that the kernels (or their gradient) must have; NULL: the primitive's own choice,
 * which dnn_weights tells. NEAP_UNSUPPORTED: oneDNN has no such primitive, or (unless `plain`) only its slow
 * reference one. */
neap_status dnn_make_convolution(struct dnn *dnn, const struct dnn_convolution *c,
                                 const struct dnn_layout *weights, const struct dnn_primitive **out);
const struct dnn_layout *dnn_weights(const struct dnn_primitive *primitive);

/* c [batch..., m, n] = a [batch..., m, k] b [batch..., k, n] (+ bias [n]); a and b may be stored transposed,
 * all are dense. A dimension of the batch may be 1 in one of the two. With an addend the result is added to
 * what c holds. */
enum { DNN_BATCH_LIMIT = 6 };
struct dnn_matmul {
  int32_t batch_rank;
  int64_t a_batch[DNN_BATCH_LIMIT], b_batch[DNN_BATCH_LIMIT];
  int64_t m, n, k;
  int64_t c_stride; /* elements from a row of c to the next; 0: n. Without a batch */
  bool a_transposed, b_transposed, bias;
  bool addend;     /* the product is added to what c holds */
  bool bf16;       /* so are all operands, where dnn_has_bf16; sums are f32 */
  bool f32_result; /* then c is f32 all the same */
};
/* How many times as fast as those of f32 direct convolutions of bf16 are, the three passes together, where
 * the processor multiplies bf16 and the library knows how; 0: it does not. Measured with AVX512_BF16; of AMX
 * an estimate. */
double dnn_bf16_speed(void);
static inline bool dnn_has_bf16(void) { return dnn_bf16_speed() > 0; }
/* The same of any type: what is not multiplied as it is stored is as fast as f32. */
static inline double dnn_convolution_speed(bool bf16) {
  return bf16 && dnn_has_bf16() ? dnn_bf16_speed() : 1;
}
neap_status dnn_make_matmul(struct dnn *dnn, const struct dnn_matmul *m, const struct dnn_primitive **out);

/* y [rows, outputs] = x [rows, inputs] w^T with w [outputs, inputs] packed as the primitive likes
 * (dnn_weights), added to what y holds with an addend; or, backward by data, x = y w. x and y are dense. */
struct dnn_inner_product {
  enum dnn_pass pass; /* forward or backward by data */
  int64_t rows, outputs, inputs;
  bool addend; /* forward only */
};
neap_status dnn_make_inner_product(struct dnn *dnn, const struct dnn_inner_product *i,
                                   const struct dnn_primitive **out);

/* Of elements of f32, or of bf16 where dnn_has_bf16. */
neap_status dnn_make_reorder(struct dnn *dnn, const struct dnn_layout *from, const struct dnn_layout *to,
                             bool bf16, const struct dnn_primitive **out);

size_t dnn_scratchpad_bytes(const struct dnn_primitive *primitive);
void dnn_describe(const struct dnn_primitive *primitive, char *text,
                  size_t size); /* that, and the version of oneDNN */

/* Operands by role. Convolution: a = source or its gradient, b = weights or their gradient, c = destination
 * or its gradient; inner product: x, w, y; matmul: a, b, c; reorder: a to c. */
struct dnn_operands {
  void *a, *b, *c, *bias, *scratchpad;
};
neap_status dnn_run(const struct dnn_primitive *primitive, const struct dnn_operands *operands);

#endif
