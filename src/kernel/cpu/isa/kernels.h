/* Neap's own CPU kernels: f32, vectorised, OpenMP. Every .c file of this folder is compiled once for each
 * instruction set (NEAP_ISA = generic, avx2, avx512), and one table of functions per set is exported; the
 * best that the processor has is chosen at run time (cpu_kernels_best).
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

/* How a tensor [images, channels, pixels...] lies in memory: channel c of pixel p of image n stands at
 *     ((n * blocks + c / lanes) * pixels + p) * lanes + c % lanes,   blocks = ceil(channels / lanes).
 * lanes = 1: row-major (NCHW); lanes = channels: channels last (NHWC); 8 or 16: channel blocks (nChw16c). */
struct activation {
  int64_t images, channels, height, width, lanes; /* pixels = height * width */
};

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
struct loss_part {
  double loss;
  int64_t counted, correct;
};

/* Where a pixel of a resized axis is read: (1 - share) first + share second. */
struct resize_tap {
  int64_t first, second;
  float share;
};

struct cpu_kernels {
  const char *name;

  /* Mean and biased variance over images and pixels: [channels] each. Reads x once; as accurate as two
   * passes (chunks centred on their own mean, merged in double: Chan et al. 1979). `workspace`:
   * batch_norm_workspace bytes. */
  void (*batch_norm_statistics)(struct activation a, const float *x, float *mean, float *variance,
                                void *workspace);
  /* y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, then, where `ceiling` is not 0, cut to
   * [0, ceiling]: ReLU with an infinite one. In place. */
  void (*batch_norm)(struct activation a, const float *x, const float *mean, const float *variance,
                     const float *gamma, const float *beta, float epsilon, float ceiling, float *y);
  /* Gradients of the above through the batch statistics. With a ceiling, dy counts only where the forward
   * result (recomputed from x, exactly as batch_norm computes it) is inside; beta is read only then. dx may
   * be in place of dy or of x. `addend` (may be NULL) is added to dx; dx may be in place of it too. */
  void (*batch_norm_backward)(struct activation a, const float *x, const float *dy, const float *mean,
                              const float *variance, const float *gamma, const float *beta, float epsilon,
                              float ceiling, const float *addend, float *dx, float *dgamma, float *dbeta,
                              void *workspace);
  /* Bytes of workspace that the kernels of one activation with this many channels (rounded up to lanes) take.
   */
  size_t (*reduction_workspace)(int64_t channels, int threads);

  void (*relu)(int64_t count, const float *x, float *y);                            /* in place */
  void (*relu_backward)(int64_t count, const float *y, const float *dy, float *dx); /* in place of dy or y */
  /* The same with the sign of x as a bit an element, the first of eight the lowest. In place; in place of dy.
   */
  void (*relu_mask)(int64_t count, const float *x, float *y, uint8_t *bits);
  void (*relu_mask_backward)(int64_t count, const uint8_t *bits, const float *dy, float *dx);
  void (*add)(int64_t count, const float *a, const float *b, float *sum); /* in place of either */
  /* Sum of dy over images and pixels: [channels]. */
  void (*bias_backward)(struct activation a, const float *dy, float *dbias, void *workspace);
  /* y += bias by channel, in place. */
  void (*bias_add)(struct activation a, const float *bias, float *y);

  /* Max pooling; index: which element of its window won (row-major in the window, the first of equals; NaN
   * wins), one byte an element, in y's layout. Windows of at most 254 elements. With ReLU: where no element
   * is above 0, NaN is not, y is 0 and the index 255, which gives its gradient to none. */
  void (*max_pool)(struct activation x_shape, struct activation y_shape, struct window w, const float *x,
                   float *y, uint8_t *index);
  void (*max_pool_backward)(struct activation x_shape, struct activation y_shape, struct window w,
                            const uint8_t *index, const float *dy, float *dx);
  /* Average pooling. */
  void (*average_pool)(struct activation x_shape, struct activation y_shape, struct window w, const float *x,
                       float *y);
  void (*average_pool_backward)(struct activation x_shape, struct activation y_shape, struct window w,
                                const float *dy, float *dx);
  void (*global_average_pool)(struct activation a, const float *x,
                              float *y); /* y: [images, channels] row-major */
  void (*global_average_pool_backward)(struct activation a, const float *dy, float *dx);

  /* The pixels of x from (top, left) on; and the gradient, zero outside them, plus `addend` where that is not
   * NULL; in place of it. */
  void (*crop)(struct activation x_shape, struct activation y_shape, int64_t top, int64_t left,
               const float *x, float *y);
  void (*crop_backward)(struct activation x_shape, struct activation y_shape, int64_t top, int64_t left,
                        const float *dy, const float *addend, float *dx);
  /* Bilinear interpolation (neap_resize). `workspace`: a struct resize_tap for each row and column of y. */
  void (*resize)(struct activation x_shape, struct activation y_shape, bool align_corners, const float *x,
                 float *y, void *workspace);
  void (*resize_backward)(struct activation x_shape, struct activation y_shape, bool align_corners,
                          const float *dy, float *dx, void *workspace);
  /* Means over regions that cover x: floor(i H / H') to ceil((i + 1) H / H') on each axis. */
  void (*adaptive_average_pool)(struct activation x_shape, struct activation y_shape, const float *x,
                                float *y);
  void (*adaptive_average_pool_backward)(struct activation x_shape, struct activation y_shape,
                                         const float *dy, float *dx);

  /* loss[0]: mean over rows whose label is one of the classes (0 when there are none); correct[0]: rows whose
   * label is the first largest logit. Stable (the maximum is subtracted). parts: [LOSS_PARTS], workspace. */
  void (*softmax_cross_entropy)(int64_t rows, int64_t classes, const float *logits, const int32_t *labels,
                                float smoothing, float *loss, int32_t *correct, struct loss_part *parts);
  /* d loss / d logits, in place of logits; rows with another label give 0. */
  void (*softmax_cross_entropy_backward)(int64_t rows, int64_t classes, const float *logits,
                                         const int32_t *labels, float smoothing, float *dlogits);

  /* y[i] = u(i) >= probability ? x[i] / (1 - probability) : 0, u in [0, 1) from the counter i: the element's
   * place in row-major order, whatever the layout. In place. */
  void (*dropout)(struct activation a, struct random_key key, float probability, const float *x, float *y);

  /* g += weight_decay * w; m = momentum * m + g; w -= rate * (nesterov ? g + momentum * m : m), as PyTorch. m
   * may be NULL (momentum 0). */
  void (*sgd)(int64_t count, float *w, float *m, const float *g, float rate, float momentum,
              float weight_decay, bool nesterov);
  /* Loshchilov & Hutter 2019, decoupled decay, bias correction for update number `step` (from 1), as PyTorch.
   */
  void (*adamw)(int64_t count, float *w, float *m, float *v, const float *g, float rate, float beta1,
                float beta2, float epsilon, float weight_decay, int64_t step);
  /* running += momentum * (batch - running); the variance times count / (count - 1) (count 1: as it is). */
  void (*running_statistics)(int64_t channels, float *running_mean, float *running_variance,
                             const float *mean, const float *variance, float momentum, int64_t count);

  void (*relu6)(int64_t count, const float *x, float *y);                            /* in place */
  void (*relu6_backward)(int64_t count, const float *y, const float *dy, float *dx); /* in place of dy or y */

  /* Copies rows of `length` elements that begin x_stride and y_stride apart; or adds them to the rows of
   * `addend`, which lie as y's do and where y may be in place. */
  void (*copy_rows)(int64_t rows, int64_t length, const float *x, int64_t x_stride, float *y,
                    int64_t y_stride);
  void (*add_rows)(int64_t rows, int64_t length, const float *x, int64_t x_stride, const float *addend,
                   float *y, int64_t y_stride);

  /* y = x / (k + alpha / size * sum of squares over the channels [c - size / 2, c + (size - 1) / 2])^beta, in
   * place; and its gradient, in place of dy or x. `workspace`: response_workspace bytes for so many channels
   * (rounded up to lanes). */
  void (*local_response_norm)(struct activation a, struct response r, const float *x, float *y,
                              void *workspace);
  void (*local_response_norm_backward)(struct activation a, struct response r, const float *x,
                                       const float *dy, float *dx, void *workspace);
  size_t (*response_workspace)(int64_t channels, struct response r, int threads);

  /* The same tensor from one activation layout to another. */
  void (*reorder)(struct activation from, struct activation to, const float *x, float *y);
};

/* The table for the best instruction set that this processor has. */
const struct cpu_kernels *cpu_kernels_best(void);

/* All tables that this processor can run, best first; NULL past the last. */
const struct cpu_kernels *cpu_kernels_at(int index);

#endif
