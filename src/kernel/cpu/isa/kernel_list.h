/* The one list of our own CPU kernels. Define KERNEL(result, name, (parameters)) and include this: the table,
 * the declarations and each instruction set's functions are made from it. What holds for all of them stands
 * in kernels.h. */

/* Elements of any type of storage to floats, and back to the nearest (base/half.h). */
KERNEL(void, widen, (neap_dtype storage, int64_t count, const void *x, float *y))
KERNEL(void, narrow, (neap_dtype storage, int64_t count, const float *x, void *y))
/* From any to any. */
KERNEL(void, convert, (int64_t count, struct stored x, struct stored y))
/* To one of the two neighbours, the nearer the likelier, so that the mean is x: by 16 random bits of the
 * counter that is the element's place, counted from `first`. */
KERNEL(void, narrow_randomly,
       (neap_dtype storage, int64_t count, const float *x, void *y, struct random_key key, int64_t first))
/* The same for elements that are not neighbours: at[] has the place of each. */
KERNEL(void, narrow_randomly_at,
       (neap_dtype storage, int64_t count, const float *x, void *y, struct random_key key, const int64_t *at))

/* Operators of one tensor (op/elementwise_list.h): y of x; dx of dy and what the gradient keeps (unused where
 * it keeps nothing). In place; in place of dy and of what is kept. */
#define UNARY(NAME, id, ...)                                                                                 \
  KERNEL(void, id, (int64_t count, struct scalars s, struct stored x, struct stored y))                      \
  KERNEL(void, id##_backward,                                                                                \
         (int64_t count, struct scalars s, struct stored kept, struct stored dy, struct stored dx))
/* Gated activations (op/gated_list.h) of rows of 2 width elements; gradients in place of x. */
#define GATED(NAME, id, ...)                                                                                 \
  KERNEL(void, id, (int64_t rows, int64_t width, const float *x, float *y))                                  \
  KERNEL(void, id##_backward, (int64_t rows, int64_t width, const float *x, const float *dy, float *dx))
#include "op/gated_list.h"
/* Operators of two tensors: of equal shapes, in place of either; and with one of them broadcast. */
#define BINARY(NAME, id, ...)                                                                                \
  KERNEL(void, id, (int64_t count, const float *x, const float *y, float *z))                                \
  KERNEL(void, id##_stored, (int64_t count, struct stored x, struct stored y, struct stored z))              \
  KERNEL(void, id##_broadcast, (struct strides s, const float *x, const float *y, float *z))
#include "op/elementwise_list.h"

/* Mean and biased variance over images and pixels: [channels] each. Reads x once; as accurate as two
 * passes (chunks centred on their own mean, merged in double: Chan et al. 1979). `workspace`:
 * batch_norm_workspace bytes. */
KERNEL(void, batch_norm_statistics,
       (struct activation a, const void *x, float *mean, float *variance, void *workspace))
/* y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, plus `addend` (may be NULL), then, where
 * `ceiling` is not 0, cut to [0, ceiling]: ReLU with an infinite one. In place of x or the addend. */
KERNEL(void, batch_norm,
       (struct activation a, const void *x, const float *mean, const float *variance, const float *gamma,
        const float *beta, float epsilon, const void *addend, float ceiling, void *y))
/* Gradients of the above, through the batch statistics unless these are `fixed`. With a ceiling, dy counts
 * only where the forward result without an addend (recomputed from x, exactly as batch_norm computes it) is
 * inside; beta is read only then. dx may be in place of dy or of x. `addend` (may be NULL) is added to dx; dx
 * may be in place of it too. */
KERNEL(void, batch_norm_backward,
       (struct activation a, const void *x, const void *dy, const float *mean, const float *variance,
        const float *gamma, const float *beta, float epsilon, float ceiling, bool fixed, const void *addend,
        void *dx, float *dgamma, float *dbeta, void *workspace))
/* Bytes of workspace that the kernels of one activation with this many channels (rounded up to lanes) take.
 */
KERNEL(size_t, reduction_workspace, (int64_t channels, int threads))

/* ReLU with the sign of x as a bit an element, the first of eight the lowest. In place; in place of dy.
 */
KERNEL(void, relu_mask, (int64_t count, const float *x, float *y, uint8_t *bits))
KERNEL(void, relu_mask_backward, (int64_t count, const uint8_t *bits, const float *dy, float *dx))
/* Sum of dy over images and pixels: [channels]. */
KERNEL(void, bias_backward, (struct activation a, const void *dy, float *dbias, void *workspace))
/* y += bias by channel, in place. */
KERNEL(void, bias_add, (struct activation a, const float *bias, float *y))

/* y = (x - mean) / deviation by channel of row-major images, in f32 and to the nearest of the storage of `a`;
 * 0 outside of an image's window: windows [images, 4], rows and columns from the first to behind the last. */
KERNEL(void, pixels,
       (struct activation a, const uint8_t *x, const int32_t *windows, const float *mean,
        const float *deviation, void *y))

/* Max pooling; index: which element of its window won (row-major in the window, the first of equals; NaN
 * wins), one byte an element, in y's layout. Windows of at most 254 elements. With ReLU: where no element
 * is above 0, NaN is not, y is 0 and the index 255, which gives its gradient to none. */
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

/* The pixels of x from (top, left) on; and the gradient, zero outside them, plus `addend` where that is not
 * NULL; in place of it. */
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
/* Means over regions that cover x: floor(i H / H') to ceil((i + 1) H / H') on each axis. */
KERNEL(void, adaptive_average_pool,
       (struct activation x_shape, struct activation y_shape, const float *x, float *y))
KERNEL(void, adaptive_average_pool_backward,
       (struct activation x_shape, struct activation y_shape, const float *dy, float *dx))

/* loss[0]: mean over rows whose label is one of the classes and not ignored; 0 without such rows. With
 * weights of the classes each class's term of the loss has its weight, and the mean is weighted by those of
 * the labels. With second labels a row's loss and weight are those by both, by their shares. correct[0]: rows
 * whose label is the first largest logit. Stable (the maximum is subtracted). parts: [LOSS_PARTS], workspace.
 */
KERNEL(void, softmax_cross_entropy,
       (struct labelled l, const float *logits, const int32_t *labels, float *loss, int32_t *correct,
        struct loss_part *parts))
/* d loss / d logits times *dloss (NULL: 1), in place of logits; rows that do not count give 0. */
KERNEL(void, softmax_cross_entropy_backward,
       (struct labelled l, const float *logits, const int32_t *labels, const float *dloss, float *dlogits))

/* Without weights the same over logits [rows, classes] that come in blocks of `count` classes from `first`
 * on, one after the other. Each block is taken up into `state`; then loss_of_rows adds the mean, over
 * `counted` labels, to *before (NULL: 0), the right answers to *correct_before, and tells the log-sum of each
 * row. */
KERNEL(void, loss_block,
       (struct labelled l, int64_t first, int64_t count, const float *logits, const int32_t *labels,
        struct loss_row *state))
KERNEL(void, loss_of_rows,
       (struct labelled l, int64_t counted, const int32_t *labels, const struct loss_row *state,
        const float *before, const int32_t *correct_before, float *loss, int32_t *correct, float *log_sum))
/* d loss / d logits of a block, times `share`, in place. */
KERNEL(void, loss_block_backward,
       (struct labelled l, int64_t first, int64_t count, const float *logits, const int32_t *labels,
        const float *log_sum, float share, float *dlogits))

/* Losses of two tensors (op/loss_list.h). parts: [LOSS_PARTS], workspace. Gradients, by the target where
 * `by_target`, times *dloss (NULL: 1), in place of x or t. */
#define PAIR_LOSS(NAME, id, ...)                                                                             \
  KERNEL(void, id, (int64_t count, float beta, const float *x, const float *t, float *loss, double *parts))  \
  KERNEL(void, id##_backward,                                                                                \
         (int64_t count, float beta, bool by_target, const float *x, const float *t, const float *dloss,     \
          float *dx))
#include "op/loss_list.h"

/* y[i] = u(i) >= probability ? x[i] / (1 - probability) : 0, u in [0, 1) from the counter i: the element's
 * place in row-major order, whatever the layout, counted from `first`. In place. */
KERNEL(void, dropout,
       (struct activation a, struct random_key key, int64_t first, float probability, const float *x,
        float *y))

/* Updates; gradients are in units of `unit`. g += weight_decay * w; m = momentum * m + g; w -= rate *
 * (nesterov ? g + momentum * m : m), as PyTorch. m may be without data (momentum 0). */
KERNEL(void, sgd,
       (int64_t count, struct updated w, struct updated m, struct stored g, float unit, float rate,
        float momentum, float weight_decay, bool nesterov))
/* Loshchilov & Hutter 2019, decoupled decay, bias correction for update number `step` (from 1), as PyTorch.
 */
KERNEL(void, adamw,
       (int64_t count, struct updated w, struct updated m, struct updated v, struct stored g, float unit,
        float rate, float beta1, float beta2, float epsilon, float weight_decay, int64_t step))
/* As PyTorch: Adam with weight decay in the gradient; RMSprop (m without data: momentum 0); and Lion: u =
 * beta1 m + (1 - beta1) g; w -= rate (sign u + weight_decay w); m = beta2 m + (1 - beta2) g. */
KERNEL(void, adam,
       (int64_t count, struct updated w, struct updated m, struct updated v, struct stored g, float unit,
        float rate, float beta1, float beta2, float epsilon, float weight_decay, int64_t step))
KERNEL(void, rmsprop,
       (int64_t count, struct updated w, struct updated v, struct updated m, struct stored g, float unit,
        float rate, float alpha, float epsilon, float momentum, float weight_decay))
KERNEL(void, lion,
       (int64_t count, struct updated w, struct updated m, struct stored g, float unit, float rate,
        float beta1, float beta2, float weight_decay))
/* parts [SQUARE_PARTS]: the sum of squares, in double, of each part of `whole` elements that lies in the
 * `count` elements x from number `first` on; others stay. */
KERNEL(void, squares, (int64_t whole, int64_t first, int64_t count, const float *x, double *parts))
/* y = x cut to [-limit, limit] (0: not), times *coefficient (NULL: 1); in place. */
KERNEL(void, clip_gradient, (int64_t count, float limit, const float *coefficient, const float *x, float *y))
/* Of a step of micro-batches: sum += g; sum = 0; m = momentum * m + weight_decay * w; w -= rate * m. */
KERNEL(void, accumulate, (int64_t count, struct updated sum, struct stored g, float unit))
KERNEL(void, clear, (int64_t count, struct updated sum))
KERNEL(void, momentum_begin,
       (int64_t count, struct stored w, struct updated m, float momentum, float weight_decay))
KERNEL(void, momentum_end, (int64_t count, struct updated w, struct stored m, float rate))
/* y = `count` numbers of a quantised type, whole blocks. */
KERNEL(void, dequantise, (neap_dtype dtype, int64_t count, const void *blocks, struct stored y))
/* y [rows, count] = the columns from `first` on of numbers [rows, columns], whole blocks. */
KERNEL(void, dequantise_columns,
       (neap_dtype dtype, int64_t rows, int64_t columns, int64_t first, int64_t count, const void *blocks,
        struct stored y))
/* Sparse weights of `count` elements: x = the next value where there is one, else 0; sum += g * unit where
 * there is one. Sums of 16 bits are rounded at random by `key` and their elements' places in the tensor. */
KERNEL(void, densify, (neap_dtype storage, int64_t count, struct positions at, const void *values, void *x))
KERNEL(void, accumulate_sparse,
       (neap_dtype storage, neap_dtype of_g, int64_t count, struct positions at, const void *g, float unit,
        void *sum, struct random_key key))
/* The elements of `values` of its values from number `first` on; `count` for those that there are not. */
KERNEL(void, sparse_elements,
       (int64_t count, struct positions at, int64_t first, int64_t values, int64_t *elements))
/* Whether an element is as large as that, or no number. */
KERNEL(bool, reaches, (neap_dtype storage, int64_t count, const void *x, float size))
/* running += momentum * (batch - running); the variance times count / (count - 1) (count 1: as it is). With
 * several micro-batches, of which this is number `micro_batch`, their mean means the batch. */
KERNEL(void, running_statistics,
       (int64_t channels, float *running_mean, float *running_variance, const float *mean,
        const float *variance, float momentum, int64_t count, int32_t micro_batch, int32_t micro_batches))

/* Copies rows of `length` elements that begin x_stride and y_stride apart; or adds them to the rows of
 * `addend`, which lie as y's do and where y may be in place. */
KERNEL(void, copy_rows,
       (int64_t rows, int64_t length, const float *x, int64_t x_stride, float *y, int64_t y_stride))
KERNEL(void, add_rows,
       (int64_t rows, int64_t length, const float *x, int64_t x_stride, const float *addend, float *y,
        int64_t y_stride))

/* y = x / (k + alpha / size * sum of squares over the channels [c - size / 2, c + (size - 1) / 2])^beta, in
 * place; and its gradient, in place of dy or x. `workspace`: response_workspace bytes for this many channels
 * (rounded up to lanes). */
KERNEL(void, local_response_norm,
       (struct activation a, struct response r, const float *x, float *y, void *workspace))
KERNEL(void, local_response_norm_backward,
       (struct activation a, struct response r, const float *x, const float *dy, float *dx, void *workspace))
KERNEL(size_t, response_workspace, (int64_t channels, struct response r, int threads))

/* The steps of Winograd's convolution; tensors have any type of storage, bias and addend the result's.
 * Transforms windows of 6 x 6 pixels of x to the interpolation points: v. */
KERNEL(void, winograd_windows, (const struct winograd_tiles *t, const void *x, float *v))
/* Transforms kernels to the points: u. */
KERNEL(void, winograd_weights, (const struct winograd_weights *w, const void *weights, float *u))
/* Transforms tiles of 4 x 4 pixels of a gradient dy to the points: v. */
KERNEL(void, winograd_gradients, (const struct winograd_tiles *t, const void *dy, float *v))
KERNEL(void, winograd_product, (const struct winograd_product *p, const float *a, const float *b, float *c))
/* Products at the points to tiles of 4 x 4 pixels, plus bias and addend (each may be NULL); y may be in place
 * of the addend. Channels that fill up blocks are written as 0. */
KERNEL(void, winograd_results,
       (const struct winograd_tiles *t, const float *m, const void *bias, const void *addend, void *y))
/* Sums over tiles of the products of winograd_windows and winograd_gradients to the gradient of kernels: dw,
 * of f32, added to what it holds with `add`. */
KERNEL(void, winograd_weights_gradient,
       (const struct winograd_weights *w, const float *m, bool add, float *dw))

/* The same tensor from one activation layout to another. */
KERNEL(void, reorder, (struct activation from, struct activation to, const float *x, float *y))
KERNEL(void, reorder_half, (struct activation from, struct activation to, const uint16_t *x, uint16_t *y))

/* ---- Any shape, row-major ---- */

/* y = scale times the elements of x that the strides say. */
KERNEL(void, strided, (struct strides s, float scale, const float *x, float *y))
/* out = x where the mask is set, else y; NULL means `value`. The mask has the strides x. In place of x
 * or y. */
KERNEL(void, where,
       (struct strides s, const uint8_t *mask, const float *x, const float *y, float value, float *out))
KERNEL(void, fill, (int64_t count, float value, float *y))
/* y: sums of x over axes times `scale`, added up in double. */
KERNEL(void, sum, (struct sum_axes a, float scale, const float *x, float *y))
/* Softmax along the middle of [outer, count, inner]; in place. Its gradient in place of dy or y. */
KERNEL(void, softmax, (int64_t outer, int64_t count, int64_t inner, const float *x, float *y))
KERNEL(void, softmax_backward,
       (int64_t outer, int64_t count, int64_t inner, const float *y, const float *dy, float *dx))
/* Layer, RMS and group norm: y, in place, the mean of each row (0 where it is not centred) and 1 / deviation.
 * gamma and beta may be NULL. */
KERNEL(void, row_norm,
       (struct row_norm n, const void *x, const float *gamma, const float *beta, void *y, float *mean,
        float *inverse))
/* dx in place of dy or x. gamma NULL: no dgamma, dbeta. `workspace`: row_norm_workspace bytes. */
KERNEL(void, row_norm_backward,
       (struct row_norm n, const void *x, const void *dy, const float *mean, const float *inverse,
        const float *gamma, void *dx, float *dgamma, float *dbeta, void *workspace))
KERNEL(size_t, row_norm_workspace, (struct row_norm n))
/* y[t, c] = sum over k of w[h, k] x[t + k - padding, c] of the head h of channel c; rows outside are 0. */
KERNEL(void, sequence_conv, (struct sequence_conv s, const float *x, const float *w, float *y))
/* dx in place of x. dw NULL: not made. `workspace`: sequence_conv_workspace bytes. */
KERNEL(void, sequence_conv_backward,
       (struct sequence_conv s, const float *x, const float *w, const float *dy, float *dx, float *dw,
        void *workspace))
KERNEL(size_t, sequence_conv_workspace, (struct sequence_conv s))
/* The cells of recurrent layers, for the rows of one time. gates: [rows, 4 width].
 * LSTM: the gates i, f, g, o activated in place; c = f c + i g, in place; y = o tanh c. */
KERNEL(void, lstm_cell, (int64_t rows, int64_t width, float *gates, float *c, float *y))
/* c alone, from activated gates and the c before, as lstm_cell computes it. */
KERNEL(void, lstm_state, (int64_t rows, int64_t width, const float *gates, const float *before, float *c))
/* From the gradients dh of y and dc of c: dgates, before the activations, in place of gates; dc becomes that
 * of the c before. */
KERNEL(void, lstm_cell_backward,
       (int64_t rows, int64_t width, const float *gates, const float *before, const float *c, const float *dh,
        float *dc, float *dgates))
/* GRU: p = product + bias [3 width], beside gates_x [rows, 3 width]; r, z = sigmoid(x + p), n = tanh(x + r
 * p); y = (1 - z) n + z before, in place of before. gates: r, z, n and the p of n. */
KERNEL(void, gru_cell,
       (int64_t rows, int64_t width, const float *gates_x, const float *product, const float *bias,
        const float *before, float *gates, float *y))
/* Gradients of x and p above, [rows, 3 width] each, from dh of y; dh becomes that of `before` but for what
 * comes through p. */
KERNEL(void, gru_cell_backward,
       (int64_t rows, int64_t width, const float *gates, const float *before, float *dh, float *dgates_x,
        float *dgates_h))
/* y[i] = table[ids[i]], 0 where that is no row. */
KERNEL(void, gather,
       (neap_dtype storage, int64_t rows, int64_t width, int64_t count, const void *table, const int32_t *ids,
        void *y))
/* dtable: sums of dy by row, in f32 in the order of ids, then added to the addend (NULL: 0) and stored; in
 * place of the addend. `workspace`: gather_workspace bytes. */
KERNEL(void, gather_backward,
       (neap_dtype storage, int64_t rows, int64_t width, int64_t count, const int32_t *ids, const void *dy,
        const void *addend, void *dtable, void *workspace))
KERNEL(size_t, gather_workspace, (int64_t count))
/* Attention over blocks of keys: y [sequences, queries, heads, depth] and the logarithm of the sum of the
 * exponentials of a query's scores, [sequences, heads, queries]; -infinity where it sees no key. Elements of
 * keys and values that no query of a block can see are not read. */
KERNEL(void, attention,
       (struct attention a, const void *q, const void *k, const void *v, void *y, float *log_sum,
        void *workspace))
/* Its gradients. dq in place of dy, y or q, dk of k, dv of v; also where q, k and v are parts of one tensor.
 */
KERNEL(void, attention_backward,
       (struct attention a, const void *q, const void *k, const void *v, const void *y, const float *log_sum,
        const void *dy, void *dq, void *dk, void *dv, void *workspace))
/* Bytes of workspace of each of the two. */
KERNEL(size_t, attention_workspace, (struct attention a, bool backward, int threads))
/* Pairs of elements of the first `turned` heads turned by the angles of their row; in place. `workspace`:
 * rotary_workspace bytes. */
KERNEL(void, rotary, (struct rotary r, const float *x, float *y, void *workspace))
KERNEL(size_t, rotary_workspace, (struct rotary r, int threads))
/* y [rows, 2 half]: sines, then cosines, of (row + first) 10000^(-d / (half - 1)); half 1: of (row + first).
 */
KERNEL(void, positions, (int64_t rows, int64_t half, int64_t first, float *y))
/* Rows of `row` bytes each: those of x before lengths[n], of `rows` in a sequence; zeros behind. In place. */
KERNEL(void, sequence_mask,
       (int64_t sequences, int64_t rows, size_t row, const int32_t *lengths, const void *x, void *y))
/* Ids [sequences, times] before the first negative one of each. */
KERNEL(void, sequence_lengths, (int64_t sequences, int64_t times, const int32_t *ids, int32_t *lengths))
/* What the processor does at best, on one thread (kernel/cpu/speed.c). Multiply-adds in registers: `*flops`
 * is how many FLOPs they were, the result 1. The same of products of pairs of bf16, added up in f32: 0 FLOPs
 * where the processor has none, the result 0. y = x, and the same around the caches. */
KERNEL(double, multiply_adds, (int64_t rounds, double *flops))
KERNEL(double, bf16_dot_products, (int64_t rounds, double *flops))
KERNEL(void, copy, (int64_t count, const float *x, float *y))
KERNEL(void, stream_copy, (int64_t count, const float *x, float *y))
