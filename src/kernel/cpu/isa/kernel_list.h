/* The list of Neap's own CPU kernels. Define KERNEL(result, name, (parameters)) and include this file: the
 * table, the declarations and the functions of each instruction set are made from it. PAIRS_KERNEL, if it is
 * defined, has the rows of kernels that multiply pairs of bf16 where the processor does. kernels.h states the
 * rules for all kernels. */
#if !defined(PAIRS_KERNEL)
#define PAIRS_KERNEL KERNEL
#define PAIRS_KERNEL_LIKE_OTHERS
#endif

/* Convert elements of any type of storage to floats, and floats to the nearest element of that type
 * (base/half.h). */
KERNEL(void, widen, (neap_dtype storage, int64_t count, const void *x, float *y))
KERNEL(void, narrow, (neap_dtype storage, int64_t count, const float *x, void *y))
/* Converts elements of any type of storage to any other. */
KERNEL(void, convert, (int64_t count, struct stored x, struct stored y))
/* Rounds each element to one of its two neighbours, the nearer with the higher probability, so that the mean
 * is x (stochastic rounding). Element i uses 16 random bits that belong to the place first + i. */
KERNEL(void, narrow_randomly,
       (neap_dtype storage, int64_t count, const float *x, void *y, struct random_key key, int64_t first))
/* The same for elements that are not neighbours: at[i] is the place of element i. */
KERNEL(void, narrow_randomly_at,
       (neap_dtype storage, int64_t count, const float *x, void *y, struct random_key key, const int64_t *at))

/* Operators of one tensor (op/elementwise_list.h). Forward: y of x, in place. Backward: dx of dy and `kept`,
 * the tensor that the gradient reads (unused if it reads none), in place of dy or `kept`. */
#define UNARY(NAME, id, ...)                                                                                 \
  KERNEL(void, id, (int64_t count, struct scalars s, struct stored x, struct stored y))                      \
  KERNEL(void, id##_backward,                                                                                \
         (int64_t count, struct scalars s, struct stored kept, struct stored dy, struct stored dx))
/* Gated activations (op/gated_list.h) of x [rows, 2 width] to y [rows, width]. Gradients may be in place of
 * x. */
#define GATED(NAME, id, ...)                                                                                 \
  KERNEL(void, id, (int64_t rows, int64_t width, const float *x, float *y))                                  \
  KERNEL(void, id##_backward, (int64_t rows, int64_t width, const float *x, const float *dy, float *dx))
#include "op/gated_list.h"
/* Operators of two tensors: of equal shapes, in f32 and in any storage, in place of either; and broadcast. */
#define BINARY(NAME, id, ...)                                                                                \
  KERNEL(void, id, (int64_t count, const float *x, const float *y, float *z))                                \
  KERNEL(void, id##_stored, (int64_t count, struct stored x, struct stored y, struct stored z))              \
  KERNEL(void, id##_broadcast, (struct strides s, const float *x, const float *y, float *z))
#include "op/elementwise_list.h"

/* Compute the mean and biased variance over images and pixels: [channels] each. Reads x once: differences
 * from the channel's first element are summed in f32 over slices of pixels, and in double over slices.
 * `workspace`: reduction_workspace bytes. */
KERNEL(void, batch_norm_statistics,
       (struct activation a, const void *x, float *mean, float *variance, void *workspace))
/* y = x normalised, plus `addend` (may be NULL), then clipped; an infinite ceiling gives ReLU. In place of x
 * or the addend. */
KERNEL(void, batch_norm,
       (struct activation a, struct batch_norm n, const void *x, const void *addend, void *y))
/* Gradients of batch_norm. They pass through the batch statistics unless these are `fixed`. With a ceiling,
 * dy counts only where the forward result without an addend is inside (0, ceiling). That result is
 * recomputed from x exactly as batch_norm computes it; beta is read only then. `addend` (may be NULL) is
 * added to dx. dx may be in place of dy, x or the addend. `workspace`: reduction_workspace bytes. */
KERNEL(void, batch_norm_backward,
       (struct activation a, struct batch_norm n, const void *x, const void *dy, const void *addend,
        struct norm_gradients d, void *workspace))
/* Returns the bytes of workspace of batch_norm_statistics, batch_norm_backward and bias_backward. */
KERNEL(size_t, reduction_workspace, (struct activation a))

/* ReLU that keeps one bit an element for its gradient, set where x is above 0 or NaN; the first of eight
 * elements has the lowest bit. Forward in place; backward in place of dy. */
KERNEL(void, relu_mask, (int64_t count, const float *x, float *y, uint8_t *bits))
KERNEL(void, relu_mask_backward, (int64_t count, const uint8_t *bits, const float *dy, float *dx))
/* Sums dy over images and pixels: dbias [channels]. */
KERNEL(void, bias_backward, (struct activation a, const void *dy, float *dbias, void *workspace))
/* Adds the bias to each channel of y, in place. */
KERNEL(void, bias_add, (struct activation a, const float *bias, float *y))

/* y = (x - mean) / deviation by channel of row-major images, computed in f32 and rounded to the storage of
 * `a`. y is 0 outside an image's window. windows [images, 4]: first row, end of rows, first column, end of
 * columns. */
KERNEL(void, pixels,
       (struct activation a, const uint8_t *x, const int32_t *windows, const float *mean,
        const float *deviation, void *y))

/* Max pooling. index: the element of the window that won (row-major in the window; the first of equals; NaN
 * wins), one byte an element, in y's layout. A window has at most 254 elements. With ReLU, a window without
 * NaN and without an element above 0 gives y = 0 and index 255; no element gets its gradient. */
KERNEL(void, max_pool,
       (struct activation x_shape, struct activation y_shape, struct window w, const float *x, float *y,
        uint8_t *index))
KERNEL(void, max_pool_backward,
       (struct activation x_shape, struct activation y_shape, struct window w, const uint8_t *index,
        const float *dy, float *dx))
/* Average pooling. */
KERNEL(void, average_pool,
       (struct activation x_shape, struct activation y_shape, struct window w, const float *x, float *y))
KERNEL(void, average_pool_backward,
       (struct activation x_shape, struct activation y_shape, struct window w, const float *dy, float *dx))
KERNEL(void, global_average_pool,
       (struct activation a, const float *x, float *y)) /* y: [images, channels] row-major */
KERNEL(void, global_average_pool_backward, (struct activation a, const float *dy, float *dx))

/* crop copies the pixels of x from (top, left) on. The gradient is 0 outside them, plus `addend` (may be
 * NULL), and may be in place of the addend. */
KERNEL(void, crop,
       (struct activation x_shape, struct activation y_shape, int64_t top, int64_t left, const float *x,
        float *y))
KERNEL(void, crop_backward,
       (struct activation x_shape, struct activation y_shape, int64_t top, int64_t left, const float *dy,
        const float *addend, float *dx))
/* Bilinear interpolation (neap_resize). `workspace`: a struct resize_tap for each row and column of y. */
KERNEL(void, resize,
       (struct activation x_shape, struct activation y_shape, bool align_corners, const float *x, float *y,
        void *workspace))
KERNEL(void, resize_backward,
       (struct activation x_shape, struct activation y_shape, bool align_corners, const float *dy, float *dx,
        void *workspace))
/* Means over regions that cover x: region i of an axis goes from floor(i H / H') to ceil((i + 1) H / H'). */
KERNEL(void, adaptive_average_pool,
       (struct activation x_shape, struct activation y_shape, const float *x, float *y))
KERNEL(void, adaptive_average_pool_backward,
       (struct activation x_shape, struct activation y_shape, const float *dy, float *dx))

/* Softmax cross-entropy. loss[0]: the mean over the rows that count, 0 without any; a row counts if its
 * labels are classes and are not `ignored`. With class weights, each class's term of the loss has its
 * weight, and the mean is weighted by the weights of the labels. With second labels, a row's loss and weight
 * are those of both labels, by their shares. correct[0]: the number of rows whose (first) label is the first
 * largest logit. Stable: the maximum is subtracted. parts: [LOSS_PARTS], workspace. */
KERNEL(void, softmax_cross_entropy,
       (struct labelled l, const float *logits, const int32_t *labels, float *loss, int32_t *correct,
        struct loss_part *parts))
/* dlogits = d loss / d logits times *dloss (NULL: 1), in place of logits; 0 in rows that do not count. */
KERNEL(void, softmax_cross_entropy_backward,
       (struct labelled l, const float *logits, const int32_t *labels, const float *dloss, float *dlogits))

/* The same, without weights and second labels, over logits [rows, classes] that come in blocks of `count`
 * classes from `first` on, in order. loss_block adds a block to `state`. loss_of_rows then adds the mean
 * over `counted` labels and the right answers to those before, and gives the log-sum of each row. */
KERNEL(void, loss_block,
       (struct labelled l, int64_t first, int64_t count, const float *logits, const int32_t *labels,
        struct loss_row *state))
KERNEL(void, loss_of_rows,
       (struct labelled l, int64_t counted, const int32_t *labels, const struct loss_row *state,
        struct loss_before before, float *loss, int32_t *correct, float *log_sum))
/* dlogits = d loss / d logits of a block, times `share`, in place of logits. */
KERNEL(void, loss_block_backward,
       (struct labelled l, int64_t first, int64_t count, const float *logits, const int32_t *labels,
        const float *log_sum, float share, float *dlogits))

/* Losses of two tensors (op/loss_list.h): means over elements. parts: [LOSS_PARTS], workspace. Gradients,
 * with respect to the target if `by_target`, times *dloss (NULL: 1), in place of x or t. */
#define PAIR_LOSS(NAME, id, ...)                                                                             \
  KERNEL(void, id, (int64_t count, float beta, const float *x, const float *t, float *loss, double *parts))  \
  KERNEL(void, id##_backward,                                                                                \
         (int64_t count, float beta, bool by_target, const float *x, const float *t, const float *dloss,     \
          float *dx))
#include "op/loss_list.h"

/* y[i] = u(i) >= probability ? x[i] / (1 - probability) : 0. u(i) in [0, 1) is drawn from the counter i: the
 * element's place in row-major order, in every layout, counted from `first`. In place. */
KERNEL(void, dropout,
       (struct activation a, struct random_key key, int64_t first, float probability, const float *x,
        float *y))

/* Update rules (op/update_list.h); a state that a parameter lacks is without data. */
#define UPDATE(NAME, id, ...)                                                                                \
  KERNEL(void, id,                                                                                           \
         (int64_t count, struct update u, struct updated w, struct updated first, struct updated second,     \
          struct stored g))
#include "op/update_list.h"
/* Divides `whole` elements into SQUARE_PARTS parts. Writes the sum of squares, in double, of each part that
 * lies in x, the `count` elements from number `first` on; other parts stay. */
KERNEL(void, squares, (int64_t whole, int64_t first, int64_t count, const float *x, double *parts))
/* y = x clipped to [-limit, limit] (limit 0: not clipped), times *coefficient (NULL: 1); in place. */
KERNEL(void, clip_gradient, (int64_t count, float limit, const float *coefficient, const float *x, float *y))
/* For a step of micro-batches. accumulate: sum += g. clear: sum = 0. momentum_begin: m = momentum * m +
 * weight_decay * (w - origin). momentum_end: w -= rate * m. */
KERNEL(void, accumulate, (int64_t count, struct updated sum, struct stored g, float unit))
KERNEL(void, clear, (int64_t count, struct updated sum))
KERNEL(void, momentum_begin,
       (int64_t count, struct stored w, struct updated m, float momentum, float weight_decay, float origin))
KERNEL(void, momentum_end, (int64_t count, struct updated w, struct stored m, float rate))
/* Rounds `count` numbers at random by `key` to blocks of C8 or C4; the last may have fewer numbers. */
KERNEL(void, compress,
       (neap_dtype dtype, int64_t count, struct random_key key, struct stored x, void *blocks))
/* Dequantises `count` numbers, in whole blocks but for the last. */
KERNEL(void, dequantise, (neap_dtype dtype, int64_t count, const void *blocks, struct stored y))
/* Dequantises the columns from `first` on, `count` of them, of numbers [rows, columns], in whole blocks: y
 * [rows, count]. */
KERNEL(void, dequantise_columns,
       (neap_dtype dtype, int64_t rows, int64_t columns, int64_t first, int64_t count, const void *blocks,
        struct stored y))
/* y = x + the noise. */
KERNEL(void, perturb, (int64_t count, struct noise noise, struct stored x, struct stored y))
/* Sparse weights of a tensor of `count` elements. densify: x = an element's value, 0 if it has none.
 * accumulate_sparse: adds g * unit of each element that has a value to its sum. Sums of 16 bits are rounded
 * at random by `key` and their elements' places in the tensor. */
KERNEL(void, densify, (neap_dtype storage, int64_t count, struct positions at, const void *values, void *x))
KERNEL(void, accumulate_sparse,
       (neap_dtype storage, neap_dtype of_g, int64_t count, struct positions at, const void *g, float unit,
        void *sum, struct random_key key))
/* Gives the elements that have the values first, first + 1, ..., first + values - 1; `count` for a value
 * that does not exist. */
KERNEL(void, sparse_elements,
       (int64_t count, struct positions at, int64_t first, int64_t values, int64_t *elements))
/* Returns whether any element is NaN or has a magnitude of at least `size`. */
KERNEL(bool, reaches, (neap_dtype storage, int64_t count, const void *x, float size))
/* running += momentum * (batch - running), with the batch's variance times count / (count - 1) (count 1:
 * times 1). With several micro-batches, of which this is number `micro_batch` (from 0), `batch` is the mean
 * over them. */
KERNEL(void, running_statistics,
       (int64_t channels, struct running_averages running, const float *mean, const float *variance))

/* copy_rows copies rows of `length` elements; rows begin x_stride and y_stride elements apart. add_rows adds
 * them to the rows of `addend`, which has the stride of y; y may be in place of it. */
KERNEL(void, copy_rows,
       (int64_t rows, int64_t length, const float *x, int64_t x_stride, float *y, int64_t y_stride))
KERNEL(void, add_rows,
       (int64_t rows, int64_t length, const float *x, int64_t x_stride, const float *addend, float *y,
        int64_t y_stride))

/* y = x / (k + alpha / size * sum of squares over the channels [c - size / 2, c + (size - 1) / 2])^beta, in
 * place. Its gradient may be in place of dy or x. `workspace`: response_workspace bytes for the number of
 * channels rounded up to lanes. */
KERNEL(void, local_response_norm,
       (struct activation a, struct response r, const float *x, float *y, void *workspace))
KERNEL(void, local_response_norm_backward,
       (struct activation a, struct response r, const float *x, const float *dy, float *dx, void *workspace))
KERNEL(size_t, response_workspace, (int64_t channels, struct response r, int threads))

/* The steps of Winograd's convolution. Tensors have any type of storage; bias and addend have the result's.
 * Transforms windows of 6 x 6 pixels of x to the interpolation points: v. */
KERNEL(void, winograd_windows, (const struct winograd_tiles *t, const void *x, float *v))
/* Transforms kernels to the points: u. */
KERNEL(void, winograd_weights, (const struct winograd_weights *w, const void *weights, float *u))
/* Transforms tiles of 4 x 4 pixels of a gradient dy to the points: v. */
KERNEL(void, winograd_gradients, (const struct winograd_tiles *t, const void *dy, float *v))
KERNEL(void, winograd_product, (const struct winograd_product *p, const float *a, const float *b, float *c))
/* Transforms products at the points to tiles of 4 x 4 pixels, plus bias and addend (each may be NULL). y may
 * be in place of the addend. Channels that pad blocks are written as 0. */
KERNEL(void, winograd_results,
       (const struct winograd_tiles *t, const float *m, const void *bias, const void *addend, void *y))
/* Transforms m, the sums over tiles of products of winograd_windows and winograd_gradients, to the gradient
 * of the kernels: dw in f32. If `add`, adds to dw. */
KERNEL(void, winograd_weights_gradient,
       (const struct winograd_weights *w, const float *m, bool add, float *dw))

/* Copies a tensor from one activation layout to another. */
KERNEL(void, reorder, (struct activation from, struct activation to, const float *x, float *y))
KERNEL(void, reorder_half, (struct activation from, struct activation to, const uint16_t *x, uint16_t *y))

/* ---- Any shape, row-major ---- */

/* y = scale * x, with x read by its strides. */
KERNEL(void, strided, (struct strides s, float scale, const float *x, float *y))
/* Take and give elements of the middle axis of [outer, size, inner]: element i of the `count` of y and dy is
 * the one at elements[i], or, where that is negative, `value`. */
KERNEL(void, take, (struct taken t, const int64_t *elements, float value, const float *x, float *y))
KERNEL(void, take_backward, (struct taken t, const int64_t *elements, const float *dy, float *dx))
/* out = x where the mask is set, else y; an operand that is NULL has `value` everywhere. s.x: strides of the
 * mask. In place of x or y. */
KERNEL(void, where,
       (struct strides s, const uint8_t *mask, const float *x, const float *y, float value, float *out))
KERNEL(void, fill, (int64_t count, float value, float *y))
/* y = scale * sums of x over axes, added in double. */
KERNEL(void, sum, (struct sum_axes a, float scale, const float *x, float *y))
/* Softmax along the middle axis of [outer, count, inner], in place. Its gradient may be in place of dy or y.
 */
KERNEL(void, softmax, (int64_t outer, int64_t count, int64_t inner, const float *x, float *y))
KERNEL(void, softmax_backward,
       (int64_t outer, int64_t count, int64_t inner, const float *y, const float *dy, float *dx))
/* Layer, RMS and group norm: y, in place, and for each row its mean (0 if rows are not centred) and the
 * inverse of its deviation. gamma and beta may be NULL. */
KERNEL(void, row_norm,
       (struct row_norm n, const void *x, const float *gamma, const float *beta, void *y, float *mean,
        float *inverse))
/* dx may be in place of dy or x. gamma NULL: dgamma and dbeta are not written. `workspace`:
 * row_norm_workspace bytes. */
KERNEL(void, row_norm_backward,
       (struct row_norm n, const void *x, const void *dy, const float *mean, const float *inverse,
        const float *gamma, struct norm_gradients d, void *workspace))
KERNEL(size_t, row_norm_workspace, (struct row_norm n))
/* y[t, c] = sum over k of w[h, k] x[t + k - padding, c], where h is the head of channel c; rows outside x
 * are 0. */
KERNEL(void, sequence_conv, (struct sequence_conv s, const float *x, const float *w, float *y))
/* dx may be in place of x. dw NULL: not computed. `workspace`: sequence_conv_workspace bytes. */
KERNEL(void, sequence_conv_backward,
       (struct sequence_conv s, const float *x, const float *w, const float *dy, float *dx, float *dw,
        void *workspace))
KERNEL(size_t, sequence_conv_workspace, (struct sequence_conv s))
/* Cells of recurrent layers, for the rows of one time step. gates: [rows, 4 width].
 *
 * LSTM: activates the gates i, f, g, o in place; c = f c + i g, in place; y = o tanh c. */
KERNEL(void, lstm_cell, (int64_t rows, int64_t width, float *gates, float *c, float *y))
/* Computes c alone, from activated gates and the previous c (`before`), as lstm_cell does. */
KERNEL(void, lstm_state, (int64_t rows, int64_t width, const float *gates, const float *before, float *c))
/* From dh, the gradient of y, and dc, that of c: dgates, with respect to the gates before their activations,
 * in place of gates. dc becomes the gradient of `before`, the previous c. */
KERNEL(void, lstm_cell_backward,
       (int64_t rows, int64_t width, const float *gates, const float *before, const float *c, const float *dh,
        float *dc, float *dgates))
/* GRU with x = gates_x [rows, 3 width] and p = product + bias [3 width]: r, z = sigmoid(x + p); n = tanh(x +
 * r p); y = (1 - z) n + z before, in place of `before`. gates: r, z, n and the p of n. */
KERNEL(void, gru_cell,
       (int64_t rows, int64_t width, const float *gates_x, const float *product, const float *bias,
        const float *before, float *gates, float *y))
/* From dh, the gradient of y: the gradients of x and p of gru_cell, [rows, 3 width] each. dh becomes the
 * gradient of `before` without the part that comes through p. */
KERNEL(void, gru_cell_backward,
       (int64_t rows, int64_t width, const float *gates, const float *before, float *dh, float *dgates_x,
        float *dgates_h))
/* y[i] = table[ids[i]]; 0 if ids[i] is not a row of the table. */
KERNEL(void, gather, (struct gather g, const void *table, void *y))
/* dtable = addend (NULL: 0) + the sums of dy by row, added in f32 in the order of ids. In place of the
 * addend. `workspace`: gather_workspace bytes. */
KERNEL(void, gather_backward,
       (struct gather g, const void *dy, const void *addend, void *dtable, void *workspace))
KERNEL(size_t, gather_workspace, (int64_t count))
/* Attention over blocks of keys. y: [sequences, queries, heads, depth]. log_sum [sequences, heads, queries]:
 * the logarithm of the sum of the exponentials of a query's scores; -infinity if it sees no key. Keys and
 * values that no query of a block can see are not read. */
PAIRS_KERNEL(void, attention,
             (struct attention a, const void *q, const void *k, const void *v, void *y, float *log_sum,
              void *workspace))
/* Gradients of attention. dq may be in place of dy, y or q, dk of k, dv of v, also if q, k and v are parts
 * of one tensor. Of a.rows alone: y, dy, q and dq have these rows; where they are packed q and dq have all,
 * and dq is 0 elsewhere. log_sum has all rows. */
PAIRS_KERNEL(void, attention_backward,
             (struct attention a, struct attended f, struct attention_gradients d, void *workspace))
/* Returns the bytes of workspace of attention or, if `backward`, of attention_backward. */
PAIRS_KERNEL(size_t, attention_workspace, (struct attention a, bool backward, int threads))
/* Rotates pairs of elements of the first `turned` heads by the angles of their row; copies other heads. In
 * place. `workspace`: rotary_workspace bytes. */
KERNEL(void, rotary, (struct rotary r, const float *x, float *y, void *workspace))
KERNEL(size_t, rotary_workspace, (struct rotary r, int threads))
/* y [rows, 2 half]: sines, then cosines, of (row + first) 10000^(-d / (half - 1)); half 1: of (row + first).
 */
KERNEL(void, positions, (int64_t rows, int64_t half, int64_t first, float *y))
/* Copies the first lengths[n] of the `rows` rows of sequence n, `row` bytes each, and writes zeros to the
 * rows after them. In place. */
KERNEL(void, sequence_mask,
       (int64_t sequences, int64_t rows, size_t row, const int32_t *lengths, const void *x, void *y))
/* Copies rows of each sequence, `row` bytes each: row i of the `kept` ones is row rows[i] of x, whose
 * sequences have `length` rows. */
KERNEL(void, gather_rows, (struct kept_rows k, size_t row, const void *x, void *y))
/* y = addend (NULL: 0), and row i of each sequence of x added to its row rows[i]. `row`: elements. In place
 * of the addend. */
KERNEL(void, scatter_rows, (struct kept_rows k, int64_t row, const float *x, const float *addend, float *y))
/* Counts the ids of each sequence before its first negative one; ids: [sequences, times]. */
KERNEL(void, sequence_lengths, (int64_t sequences, int64_t times, const int32_t *ids, int32_t *lengths))
/* Solves t.size equations for t.columns in place: L x = x - w or, transposed, L^T x = x - w. L lies in rows
 * of t.l_row elements; w: [t.size, t.columns], NULL: 0. */
KERNEL(void, triangular_block, (const struct triangular_block *t, const float *l, const float *w, float *x))
/* Factors l - w of `size` rows of `row` elements in place, of the lower triangle alone; w: [size, size],
 * NULL: 0. A pivot that is not positive becomes NaN. */
KERNEL(void, cholesky_block, (int64_t size, int64_t row, const float *w, float *l))
/* Computes products of matrices. `workspace`: product_workspace bytes. multiplies_pairs: whether there are
 * products of pairs of bf16. */
PAIRS_KERNEL(void, product, (const struct product *p, const struct product_operands *o, void *workspace))
PAIRS_KERNEL(size_t, product_workspace, (const struct product *p))
PAIRS_KERNEL(bool, multiplies_pairs, (void))
/* The same for products whose items are the channels of windows of pixels, with one kernel each: all f32. */
KERNEL(void, channel_product, (const struct product *p, const struct product_operands *o, void *workspace))
KERNEL(size_t, channel_product_workspace, (const struct product *p))
/* Peak speeds of one thread, for measurement (kernel/cpu/speed.c). multiply_adds runs in registers; *flops:
 * the number of FLOPs; the result is 1. bf16_dot_products adds products of pairs of bf16 in f32; *flops is 0
 * if the processor has no such instruction; the result is 0. copy: y = x; stream_copy: the same around the
 * caches. */
KERNEL(double, multiply_adds, (int64_t rounds, double *flops))
PAIRS_KERNEL(double, bf16_dot_products, (int64_t rounds, double *flops))
KERNEL(void, copy, (int64_t count, const float *x, float *y))
KERNEL(void, stream_copy, (int64_t count, const float *x, float *y))
#if defined(PAIRS_KERNEL_LIKE_OTHERS)
#undef PAIRS_KERNEL
#undef PAIRS_KERNEL_LIKE_OTHERS
#endif
