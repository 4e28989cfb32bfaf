/* A small interface to oneDNN, which has direct convolutions. Only its .c file knows that 2.x and 3.x
 * describe primitives differently. In a build without oneDNN it has none (no_onednn.c). */
#ifndef NEAP_KERNEL_CPU_ONEDNN_H
#define NEAP_KERNEL_CPU_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernel/cpu/convolution_shape.h"

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

/* Makes a convolution. `weights`: the layout that the kernels (or their gradient) must have; NULL: the
 * primitive's own choice, which dnn_weights gives. NEAP_UNSUPPORTED: oneDNN has no such primitive, or only a
 * slow one or one that takes memory when it runs. */
neap_status dnn_make_convolution(struct dnn *dnn, const struct convolution *c,
                                 const struct dnn_layout *weights, const struct dnn_primitive **out);
const struct dnn_layout *dnn_weights(const struct dnn_primitive *primitive);
/* Returns true if there are convolutions, which take channel blocks. */
bool dnn_takes_blocks(void);

/* Returns how many times as fast as f32 direct convolutions of bf16 are, for the three passes together; 0 if
 * the processor or the library cannot multiply bf16. Measured with AVX512_BF16; an estimate for AMX. */
double dnn_bf16_speed(void);
static inline bool dnn_has_bf16(void) { return dnn_bf16_speed() > 0; }
/* The same for any type: a type that is not multiplied as stored is as fast as f32. */
static inline double dnn_convolution_speed(bool bf16) {
  return bf16 && dnn_has_bf16() ? dnn_bf16_speed() : 1;
}

/* Makes a reordering of elements of f32, or of bf16 if dnn_has_bf16. */
neap_status dnn_make_reorder(struct dnn *dnn, const struct dnn_layout *from, const struct dnn_layout *to,
                             bool bf16, const struct dnn_primitive **out);

size_t dnn_scratchpad_bytes(const struct dnn_primitive *primitive);
void dnn_describe(const struct dnn_primitive *primitive, char *text,
                  size_t size); /* the same, and the version of oneDNN */

/* A reorder is from a to c. */
neap_status dnn_run(const struct dnn_primitive *primitive, const struct convolution_operands *operands);

#endif
