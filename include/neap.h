/* Neap: train neural networks inside a memory budget.
 *
 * The user says how many bytes training may use: parameters, gradients, optimizer state, activations,
 * workspaces, all of it. Neap finds the fastest way to train exactly that model inside those bytes, proves
 * the peak before the first step and never exceeds it. Every budget gives the same bits.
 *
 *   1. Errors             every function that can fail returns neap_status
 *   2. Build a network    neap_builder: a tensor is an integer, an operator is a call
 *   3. Ready-made ones    neap_model_build("wrn-28-2", ...)
 *   4. Train it, predict  neap_session: step by step, over your own data
 *   5. Train it whole     neap_train: data sets, epochs, checkpoints, metrics
 *   6. Plan without data  neap_step, neap_plan: any graph file in, a schedule and offsets out
 *   7. Layout             neap_layout_solve: offsets for any set of buffers
 *   8. What there is      tables of operators, planners and models
 *   9. Files              written as Neap writes its own
 *
 * Ownership: what a function gives through its last parameter belongs to the caller and goes back through the
 * matching *_free, which takes NULL too; the other calls do not, where nothing else is said. On failure that
 * parameter is left as it was and nothing leaks.
 * Threads: different objects may be used from different threads; one object from one thread at a time. */
#ifndef NEAP_H
#define NEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NEAP_VERSION "0.2.0"
/* NEAP_VERSION of the library that is linked, which may be another than that of the header. */
const char *neap_version(void);

/* ---- 1. Errors ---- */

#define NEAP_STATUS_LIST(X)                                                                                  \
  X(OK, "done")                                                                                              \
  X(INVALID_ARGUMENT, "an argument is not usable")                                                           \
  X(OUT_OF_MEMORY, "the system has no memory left")                                                          \
  X(TOO_LARGE, "a size does not fit its type")                                                               \
  X(IO_FAILED, "a file could not be read or written")                                                        \
  X(BAD_FORMAT, "a file's content is not what its format asks for")                                          \
  X(OVER_BUDGET, "the budget cannot be met")                                                                 \
  X(INVALID_PLAN, "the plan or layout breaks a rule")                                                        \
  X(UNSUPPORTED, "this build or machine cannot do that")                                                     \
  X(INTERRUPTED, "stopped on request")                                                                       \
  X(INTERNAL, "a fault in Neap")                                                                             \
  X(DIVERGED, "training has come to numbers that are not finite")

typedef enum neap_status {
#define NEAP_STATUS_ENUM(name, text) NEAP_##name,
  NEAP_STATUS_LIST(NEAP_STATUS_ENUM)
#undef NEAP_STATUS_ENUM
} neap_status;

/* What the status means, in a few words. Never NULL. */
const char *neap_status_text(neap_status status);
/* What failed last in this thread: what, where, what to do about it. Valid until the next failure. */
const char *neap_error_message(void);

/* ---- 2. Build a network ----
 *
 * neap_builder_create; neap_input for what changes from step to step; operators, each of which takes tensors
 * and gives one; neap_output for what is to be read; neap_builder_finish with the loss. Dimensions are in
 * row-major order, the batch first. Axes count from 0; negative ones from the end, where -1 is the last.
 *
 * Parameters and running statistics have names, by which they are saved, loaded and grouped. Operators are
 * counted by kind, those of a scope apart: "conv1.weight", "block2.linear1.bias". Kinds with parameters:
 * conv, conv_transposed, linear (weight, bias); norm: batch norm (gamma, beta, running_mean,
 * running_variance); row_norm: layer, RMS and group norm (gamma, beta); embedding (weight); lstm, gru
 * (weight_ih, weight_hh, bias_ih, bias_hh). */

typedef struct neap_graph neap_graph;     /* what to compute; immutable, without data */
typedef struct neap_builder neap_builder; /* makes a graph */

/* A tensor of the graph under construction. Negative after a failure; every call takes a failed tensor and
 * gives one back, so only neap_builder_finish has to be checked. */
typedef int32_t neap_tensor;

/* BIT: 8 a byte. BF16 and F16 are stored in 16 bits and computed with in f32. */
typedef enum neap_dtype { NEAP_F32, NEAP_I32, NEAP_U8, NEAP_F64, NEAP_BIT, NEAP_BF16, NEAP_F16 } neap_dtype;

enum { NEAP_MAX_RANK = 8 };

/* NULL when out of memory; the other calls take NULL. */
neap_builder *neap_builder_create(const char *name);
void neap_builder_free(neap_builder *builder);

/* The shape of a tensor: its number of dimensions; 0 after a failure, and `dims` is left as it was. */
int neap_shape(const neap_builder *b, neap_tensor x, int64_t dims[NEAP_MAX_RANK]);

/* What the caller fills before each step: [dims...] of f32, i32 or u8; it keeps what was filled in. */
neap_tensor neap_input(neap_builder *b, const char *name, neap_dtype dtype, int rank, const int64_t *dims);

/* How a parameter begins. HE: He et al. 2015, normal, by fan in for [outputs, inputs], by fan out for
 * [K, C, R, S]. NORMAL: deviation `scale` (0: 1). UNIFORM: in [-scale, scale) (0: 1). */
typedef enum neap_initial {
  NEAP_INITIAL_ZERO,
  NEAP_INITIAL_ONE,
  NEAP_INITIAL_HE,
  NEAP_INITIAL_NORMAL,
  NEAP_INITIAL_UNIFORM
} neap_initial;

typedef struct neap_parameter_options {
  neap_initial initial;
  float scale;
  bool frozen;      /* training leaves it as it is: no gradient, no optimizer state */
  neap_dtype dtype; /* F32, BF16 or F16 */
} neap_parameter_options;

/* A parameter for any number of operators: [dims...]. Its name is its own, and gets no scope. */
neap_tensor neap_parameter(neap_builder *b, const char *name, int rank, const int64_t *dims,
                           neap_parameter_options options);

/* Whether the parameters that layers make from here on are frozen. Running statistics move all the same. */
void neap_freeze(neap_builder *b, bool frozen);

/* Names a tensor of real numbers that is read after evaluation and prediction (neap_session_output). */
void neap_output(neap_builder *b, const char *name, neap_tensor x);

/* Convolution of x [N, C, H, W] with `filters` kernels of size x size: [N, filters, H', W'],
 * H' = (H + 2 padding - dilation (size - 1) - 1) / stride + 1. Zero means 1 for stride, dilation, groups.
 * Kernels that are not square: what differs from size and padding by axis, where not zero. */
typedef struct neap_conv_options {
  int64_t filters, size, stride, padding, dilation, groups;
  bool bias;
  int64_t kernel_height, kernel_width, padding_height, padding_width;
} neap_conv_options;
neap_tensor neap_conv(neap_builder *b, neap_tensor x, neap_conv_options options);
/* The same with parameters that exist: weight [filters, C / groups, R, S], bias [filters] or negative. Of the
 * options stride, padding, dilation and groups count. */
neap_tensor neap_conv_with(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias,
                           neap_conv_options options);

/* Transposed convolution of x [N, C, H, W]: the gradient of a convolution from `filters` channels to C by its
 * input, [N, filters, H', W'], H' = (H - 1) stride - 2 padding + size + output_padding, where output_padding
 * is less than the stride. Kernels are [C, filters, size, size]. Zero means a stride of 1. */
typedef struct neap_conv_transposed_options {
  int64_t filters, size, stride, padding, output_padding;
  bool bias;
} neap_conv_transposed_options;
neap_tensor neap_conv_transposed(neap_builder *b, neap_tensor x, neap_conv_transposed_options options);

/* (x - mean) / sqrt(variance + epsilon) * gamma + beta over all but the channel axis of x [N, C, ...]; in
 * training with the batch's statistics, in evaluation with running ones, which a step moves by
 * `momentum` towards the batch's (the variance unbiased, as PyTorch does). Zeros mean 1e-5 and 0.1. */
typedef struct neap_batch_norm_options {
  float epsilon, momentum;
} neap_batch_norm_options;
neap_tensor neap_batch_norm(neap_builder *b, neap_tensor x, neap_batch_norm_options options);

/* As batch norm computes, over the last axis of x [..., K]: gamma and beta [K]. Zero means 1e-5. */
neap_tensor neap_layer_norm(neap_builder *b, neap_tensor x, float epsilon);
/* x / sqrt(mean of squares + epsilon) * gamma over the last axis. Zero means 2^-23, as in PyTorch. */
neap_tensor neap_rms_norm(neap_builder *b, neap_tensor x, float epsilon);
/* Layer norm over each of `groups` groups of the channels of x [N, C, ...], with gamma and beta [C]. */
neap_tensor neap_group_norm(neap_builder *b, neap_tensor x, int64_t groups, float epsilon);

/* Element by element. */
neap_tensor neap_relu(neap_builder *b, neap_tensor x);      /* max(0, x) */
neap_tensor neap_relu6(neap_builder *b, neap_tensor x);     /* min(max(0, x), 6) */
neap_tensor neap_gelu(neap_builder *b, neap_tensor x);      /* x (1 + erf(x / sqrt 2)) / 2 */
neap_tensor neap_gelu_tanh(neap_builder *b, neap_tensor x); /* its approximation by tanh */
neap_tensor neap_silu(neap_builder *b, neap_tensor x);      /* x / (1 + e^-x) */
neap_tensor neap_sigmoid(neap_builder *b, neap_tensor x);   /* 1 / (1 + e^-x) */
neap_tensor neap_tanh(neap_builder *b, neap_tensor x);
neap_tensor neap_exp(neap_builder *b, neap_tensor x);
neap_tensor neap_log(neap_builder *b, neap_tensor x);
neap_tensor neap_sqrt(neap_builder *b, neap_tensor x);
neap_tensor neap_power(neap_builder *b, neap_tensor x, float exponent);
neap_tensor neap_clip(neap_builder *b, neap_tensor x, float lowest, float highest);
neap_tensor neap_scale(neap_builder *b, neap_tensor x, float factor, float offset); /* factor x + offset */

/* Of x [..., 2K], whose halves along the last axis are a and b: [..., K]. */
neap_tensor neap_glu(neap_builder *b, neap_tensor x);    /* a sigmoid(b) */
neap_tensor neap_swiglu(neap_builder *b, neap_tensor x); /* silu(a) b */
neap_tensor neap_geglu(neap_builder *b, neap_tensor x);  /* gelu(a) b */

/* The same elements in f32, bf16 or f16, to the nearest; f16 keeps what is too large for it as its largest
 * number. All operators take all three types, and compute in f32. What they make has the type of their first
 * input, but for losses, which are f32. Layers on a tensor make parameters of its type; norms of f32. */
neap_tensor neap_cast(neap_builder *b, neap_tensor x, neap_dtype dtype);

/* Of two tensors, whose dimensions from the last one on are equal, or 1 in one of them. */
neap_tensor neap_add(neap_builder *b, neap_tensor x, neap_tensor y);
neap_tensor neap_subtract(neap_builder *b, neap_tensor x, neap_tensor y);
neap_tensor neap_multiply(neap_builder *b, neap_tensor x, neap_tensor y);
neap_tensor neap_divide(neap_builder *b, neap_tensor x, neap_tensor y);

/* Where the mask (u8, broadcast) is not 0: x, else y of its shape; `value`, or -INFINITY, else x. */
neap_tensor neap_where(neap_builder *b, neap_tensor mask, neap_tensor x, neap_tensor y);
neap_tensor neap_masked_fill(neap_builder *b, neap_tensor x, neap_tensor mask, float value);

/* Over `count` axes; NULL: all. `keep`: these axes stay, as 1. A sum over all is [1]. */
neap_tensor neap_sum(neap_builder *b, neap_tensor x, const int *axes, int count, bool keep);
neap_tensor neap_mean(neap_builder *b, neap_tensor x, const int *axes, int count, bool keep);
/* Axes of 1, and new ones in front, made as long as `dims` says. */
neap_tensor neap_expand(neap_builder *b, neap_tensor x, int rank, const int64_t *dims);
/* e^x over its sum along an axis. */
neap_tensor neap_softmax(neap_builder *b, neap_tensor x, int axis);
/* Axis i of the result is axis order[i] of x. NULL: all axes reversed. */
neap_tensor neap_transpose(neap_builder *b, neap_tensor x, const int *order);
/* Equal parts along an axis: parts[count], all negative after a failure. */
void neap_split(neap_builder *b, neap_tensor x, int axis, int count, neap_tensor *parts);

/* Rows of a table [rows, width] by numbers ids [...] of i32: [..., width]. A number that is no row gives 0.
 * neap_embedding makes the table, normal with deviation 1; another one: neap_parameter and neap_gather. */
neap_tensor neap_gather(neap_builder *b, neap_tensor table, neap_tensor ids);
neap_tensor neap_embedding(neap_builder *b, neap_tensor ids, int64_t rows, int64_t width);

/* Convolution over time of x [N, T, C] by heads, of C / H channels each: y[n, t, c] is the sum over k of
 * w[h, k] x[n, t + k - padding, c], h the head of c; rows outside [0, T) are zeros. w [H, K], or [N, T, H,
 * K]: a kernel for every time. `padding` is in [0, K); K - 1: no time reads a later one. The weights are used
 * as they are: lightweight and dynamic convolution (Wu et al. 2019) take them from neap_softmax. */
neap_tensor neap_sequence_conv(neap_builder *b, neap_tensor x, neap_tensor w, int64_t padding);

/* Products of x [..., m, k] and y [..., k, n], either as its transpose: [..., m, n]. Batches broadcast. */
neap_tensor neap_matmul(neap_builder *b, neap_tensor x, neap_tensor y, bool x_transposed, bool y_transposed);

/* `count` tensors, equal in all but one axis, one after the other along it: channels are axis 1. */
neap_tensor neap_concat(neap_builder *b, const neap_tensor *parts, int count, int axis);
/* The `count` elements of an axis of x from `first` on. */
neap_tensor neap_slice(neap_builder *b, neap_tensor x, int axis, int64_t first, int64_t count);

/* x / (k + alpha / size * sum of squares over `size` neighbouring channels)^beta of x [N, C, H, W]; channels
 * beyond the ends count as 0. Zeros mean size 5, alpha 1e-4, beta 0.75, k 1. */
typedef struct neap_response_norm_options {
  int64_t size;
  float alpha, beta, k;
} neap_response_norm_options;
neap_tensor neap_local_response_norm(neap_builder *b, neap_tensor x, neap_response_norm_options options);

/* Pooling of x [N, C, H, W] over windows of size x size, stride apart (0: size): [N, C, H', W'],
 * H' = (H + 2 padding - size) / stride + 1, rounded down, or up where `ceil` (then a last window must begin
 * inside the image or the padding before it). The average counts padding, as zeros, with `count_padding`. */
typedef struct neap_pool_options {
  int64_t size, stride, padding;
  bool ceil, count_padding;
} neap_pool_options;
neap_tensor neap_max_pool(neap_builder *b, neap_tensor x, neap_pool_options options);
neap_tensor neap_average_pool(neap_builder *b, neap_tensor x, neap_pool_options options);
neap_tensor neap_global_average_pool(neap_builder *b, neap_tensor x); /* [N, C, ...] -> [N, C] */

/* Mean over size x size regions that cover x [N, C, H, W]: [N, C, size, size]. Region i of an axis of H
 * pixels is floor(i H / size) to ceil((i + 1) H / size), as in PyTorch. */
neap_tensor neap_adaptive_average_pool(neap_builder *b, neap_tensor x, int64_t size);

/* The height x width pixels of x [N, C, H, W] from row `top` and column `left` on. */
typedef struct neap_crop_options {
  int64_t top, left, height, width;
} neap_crop_options;
neap_tensor neap_crop(neap_builder *b, neap_tensor x, neap_crop_options options);

/* Bilinear interpolation of x [N, C, H, W] to [N, C, height, width]. `align_corners`: the corner pixels keep
 * their places, pixel i is read at i (H - 1) / (height - 1); else their edges do, and it is read at
 * (i + 1/2) H / height - 1/2, not below 0, as PyTorch's interpolate. */
neap_tensor neap_resize(neap_builder *b, neap_tensor x, int64_t height, int64_t width, bool align_corners);

/* x W^T + b of x [..., K]: [..., outputs]; with W [outputs, K] and b [outputs], or none (negative). */
neap_tensor neap_linear(neap_builder *b, neap_tensor x, int64_t outputs, bool bias);
neap_tensor neap_linear_with(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias);

/* Recurrent layers over a sequence, as PyTorch's LSTM and GRU, in `count` parts, one after the other: x[i]
 * [T_i, N, K], the times first, gives y[i] [T_i, N, width]. All parts have the same parameters, in each
 * layer: weight_ih [g width, K], weight_hh [g width, width], bias_ih and bias_hh [g width], g 4 in an LSTM
 * (i, f, g, o) and 3 in a GRU (r, z, n), uniform in +-1 / sqrt(width). A sequence gives the same bits in any
 * parts; what a step keeps, makes again or has in memory at once is parts. */
typedef struct neap_recurrent_state {
  neap_tensor h, c; /* [N, width]; c: of an LSTM alone, always f32 */
} neap_recurrent_state;
typedef struct neap_recurrent_weights { /* of a layer; biases of an LSTM: bias_ih is the sum, bias_hh none */
  bool made;
  neap_tensor weight_ih, weight_hh, bias_ih, bias_hh;
} neap_recurrent_weights;
typedef struct neap_recurrent_options {
  int64_t width;
  int layers;                          /* each on what the one before gives; 0: 1 */
  float dropout;                       /* between layers */
  const neap_recurrent_state *initial; /* [layers] before the first time; NULL: zeros */
  neap_recurrent_state *last;          /* [layers] is set to that after the last time; NULL: not asked for */
  neap_recurrent_weights *weights;     /* [layers] zeroed: made by this call, for others that go on with the
                                          sequence; NULL: for this call alone */
} neap_recurrent_options;
void neap_lstm(neap_builder *b, const neap_tensor *x, int count, neap_recurrent_options options,
               neap_tensor *y);
void neap_gru(neap_builder *b, const neap_tensor *x, int count, neap_recurrent_options options,
              neap_tensor *y);

/* The same elements in row-major order under another shape; one dimension may be -1. */
neap_tensor neap_reshape(neap_builder *b, neap_tensor x, int rank, const int64_t *dims);
neap_tensor neap_flatten(neap_builder *b, neap_tensor x); /* [N, ...] -> [N, rest] */

/* Zeroes an element with `probability` and scales the others by 1 / (1 - probability); identity in
 * evaluation. The mask is a function of seed, step, node and element: recomputed, never stored. */
neap_tensor neap_dropout(neap_builder *b, neap_tensor x, float probability);

/* softmax(q k^T scale) v by sequence and head, in one pass over blocks of keys: no scores of all queries and
 * keys are ever in memory (Rabe and Staats 2021; Dao et al. 2022). Queries [N, T, H, D], keys and values
 * [N, S, G, D], of which G divides H: query head h reads key head h / (H / G). The result: [N, T, H, D].
 * Packed, k and v are not given and q is [N, T, H + 2 G, D]: the heads of queries, then those of keys, then
 * those of values, as one linear layer gives them; S = T.
 *
 * Query i stands where key p = i + S - T does. It sees key j if all of these hold: j < lengths[n], where
 * `lengths` [N] of NEAP_I32 are given; j <= p, where attention is causal; p - window < j < p + window, where
 * there is a window. A query that sees no key gives 0. Zeroed options have these meanings: */
typedef struct neap_attention_options {
  int64_t key_heads; /* G of packed operands; 0: as many as query heads. Others have it by their shape: 0 */
  bool causal;
  int64_t window; /* 0: none */
  float scale;    /* 0: 1 / sqrt(D) */
  float dropout;  /* probability that a weight of the softmax is zeroed, as neap_dropout does; in [0, 1) */
} neap_attention_options;
/* k, v and lengths: negative where not given. */
neap_tensor neap_attention(neap_builder *b, neap_tensor q, neap_tensor k, neap_tensor v, neap_tensor lengths,
                           neap_attention_options options);

/* Rotary position embedding (Su et al. 2021) of x [N, T, heads, D]: at row t, elements d and d + D / 2 of
 * each of the first `heads` heads (0: all) are turned as a point of the plane by the angle (t + first)
 * base^(-2 d / D) (base 0: 10000); other heads are copied. D is even. Of packed queries, keys and values [N,
 * T, H + 2 G, D] the first H + G heads are to be turned. */
neap_tensor neap_rotary(neap_builder *b, neap_tensor x, int64_t heads, float base, int64_t first);

/* The same where the first row is at the place that `position` [1] of i32 says when the graph runs. */
neap_tensor neap_rotary_at(neap_builder *b, neap_tensor x, int64_t heads, float base, neap_tensor position);

/* Sinusoidal position embedding [length, width] of f32, a constant (Vaswani et al. 2017, as their code has
 * it): at row t, element d < width / 2 is the sine of (t + first) 10000^(-d / (width / 2 - 1)), element d +
 * width / 2 its cosine. The width is even. */
neap_tensor neap_positions(neap_builder *b, int64_t length, int64_t width, int64_t first);

/* How many ids [N, T] of NEAP_I32 stand before the first negative one of each sequence, which is padding: [N]
 * of NEAP_I32. */
neap_tensor neap_sequence_lengths(neap_builder *b, neap_tensor ids);

/* x [N, T, ...] with zeros in place of the rows t >= lengths[n] of each sequence; `lengths` [N] of NEAP_I32.
 */
neap_tensor neap_sequence_mask(neap_builder *b, neap_tensor x, neap_tensor lengths);

/* What one run leaves for the next: [dims...] of f32, bf16 or f16, zeros at first. It is a variable of the
 * session, which can write it to begin anew; a file of weights need not have it. */
neap_tensor neap_state(neap_builder *b, const char *name, neap_dtype dtype, int rank, const int64_t *dims);
/* When all that reads the state [N, S, ...] has run, rows `position` ([1] of i32; negative: 0) and following
 * of its axis 1 become `rows` [N, T, ...] of its type; what would lie outside of it is left out. Once for a
 * state, in calls after those that read it; gradients cannot read it, so such a graph is one that only
 * predicts. */
void neap_store(neap_builder *b, neap_tensor state, neap_tensor rows, neap_tensor position);

/* Mean over the batch of -sum_c q_c log softmax(logits)_c, q = (1 - smoothing) onehot(label) + smoothing / C.
 * logits [N, C], labels [N] of NEAP_I32; or a label for each pixel: [N, C, H, W] and [N, H, W]. Tokens, whose
 * classes are the last axis, [N, T, C] and [N, T], are to be reshaped to [N T, C] and [N T]. What is labelled
 * with none of the classes, such as -1 or 255, does not count. */
neap_tensor neap_softmax_cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                       float smoothing);
/* The same where one of the classes is ignored, too. */
neap_tensor neap_softmax_cross_entropy_ignoring(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                                float smoothing, int32_t ignored);

/* The loss of a linear layer's logits x weight^T (+ bias), in blocks of classes, so that the logits of a
 * large vocabulary are never whole: x [..., K], weight [C, K], bias [C] or negative, a label in `labels` for
 * each row of x. For rows that come in parts: `labels` are those of all rows, `first` is the label of the
 * part's first row, and where that is above 0 the loss of the parts before, `before`, is added. */
typedef struct neap_linear_cross_entropy_options {
  float smoothing;
  int64_t first;
  neap_tensor before;
  bool by_time; /* labels are [N, T], and rows stand by time: [T, N, K], or some of its times */
} neap_linear_cross_entropy_options;
neap_tensor neap_linear_cross_entropy(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias,
                                      neap_tensor labels, neap_linear_cross_entropy_options options);

/* A mean over all elements of x and a target of the same shape, one call each: of (x - t)^2; of |x - t|; of
 * |x - t| where it is at least beta, else of (x - t)^2 / (2 beta) + beta / 2 less (0: 1); of -t log s(x) - (1
 * - t) log(1 - s(x)), s the sigmoid. */
neap_tensor neap_mse_loss(neap_builder *b, neap_tensor x, neap_tensor target);
neap_tensor neap_l1_loss(neap_builder *b, neap_tensor x, neap_tensor target);
neap_tensor neap_smooth_l1_loss(neap_builder *b, neap_tensor x, neap_tensor target, float beta);
neap_tensor neap_binary_cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor target);

/* Names what is made from here on "scope.…", each kind counted from 1; NULL ends it, and the count outside
 * goes on. A scope is given once: parameters and inputs have names of their own, of up to 127 bytes. */
void neap_scope(neap_builder *b, const char *scope);

/* Ends construction: the graph of `loss`, a tensor of one element, made of any operators (the sum of several
 * losses, too); or, where it is negative, a graph that only predicts and has outputs. Fails with the first
 * thing that went wrong in any call. The builder is empty afterwards and only good for neap_builder_free. */
neap_status neap_builder_finish(neap_builder *b, neap_tensor loss, neap_graph **graph);
void neap_graph_free(neap_graph *graph);

const char *neap_graph_name(const neap_graph *graph);
int64_t neap_graph_batch(const neap_graph *graph);      /* the first dimension of its first input */
int64_t neap_graph_parameters(const neap_graph *graph); /* elements that training changes by gradient */

/* ---- 3. Ready-made networks ---- */

typedef struct neap_model_options {
  int64_t batch;    /* images or sequences; 0: the model's usual one */
  int64_t image[3]; /* channels, height, width; of vectors their elements; zeros: the model's usual ones */
  int64_t classes;  /* of tokens: the vocabulary; 0: the model's usual one */
  float smoothing;  /* of the labels */
  int64_t length;   /* of sequences; 0: the model's usual one */
  float dropout;    /* of networks of sequences */
  int64_t source_length; /* of the first of a pair of sequences; 0: the length */
  int64_t decode; /* above 0: the graph that decodes one token at a time after so many at most before it */
} neap_model_options;

/* A network by name, as neap_model_at lists them: "wrn-28-2", "resnet50", "preresnet-1001", ... Its inputs
 * are "image" [N, C, H, W] and "label" [N], or [N, H', W'] where it classifies pixels; those are the centre
 * of the image where there are fewer; of a model of sequences "tokens" [N, T] of i32, or "sequence" [N, T,
 * K], and "label" [N, T]; of pairs of sequences "source" [N, S] of i32 besides, with -1 behind its end, and
 * "tokens" are the target's, one place later than its labels. `options` may be NULL.
 *
 * The graph that decodes has the parameters of the one that trains, at the same `length`, and no loss; inputs
 * "tokens" [N, 1], and of transformers "position" [1] of i32, how many tokens went before, and "length" [N],
 * one more; the output "logits" [N, 1, V]. What those tokens left stands in states (neap_state). */
neap_status neap_model_build(const char *name, const neap_model_options *options, neap_graph **graph);

/* ---- 4. Train it, predict with it ----
 *
 * To train: neap_session_create; before each neap_session_step fill what neap_session_input gives; then
 * neap_session_save. To predict, here or in another program: build the same network, of any batch, and a
 * session with `.predict`; neap_session_load; fill the inputs; neap_session_predict; neap_session_output. */

/* Budgets. A number of bytes; or one of these. */
#define NEAP_BUDGET_MAX UINT64_MAX    /* keep everything */
#define NEAP_BUDGET_MIN ((uint64_t)0) /* the least that can be met */

/* Reads "96MiB" or "96M", "0.5GB", "100663296", "max", "min" (-> bytes), "80%" (-> fraction 0.8, bytes 0). */
neap_status neap_budget_parse(const char *text, uint64_t *bytes, double *fraction);
/* The budget that is such a share of `everything` bytes: a number of bytes, at least 1. */
uint64_t neap_budget_share(double fraction, uint64_t everything);

/* Update rules, as PyTorch has them; neap_optimizer_at lists them, with their papers. ADAMW has decoupled
 * decay, ADAM decay in the gradient. */
typedef enum neap_optimizer { NEAP_SGD, NEAP_ADAMW, NEAP_ADAM, NEAP_RMSPROP, NEAP_LION } neap_optimizer;

/* Parameters whose names match a pattern of the shell ("*.bias", "*norm*") get a learning rate and a weight
 * decay of their own. Of several groups that match the first counts; one may match nothing. */
typedef struct neap_parameter_group {
  const char *pattern;
  float rate; /* times the learning rate */
  float weight_decay;
} neap_parameter_group;
typedef enum neap_convolution { NEAP_CONV_AUTO, NEAP_CONV_DIRECT, NEAP_CONV_WINOGRAD } neap_convolution;
typedef enum neap_backend { NEAP_CPU, NEAP_REFERENCE } neap_backend; /* fast f32; plain C in double */
/* Costs of nodes: from FLOPs and bytes alone; or timed here, and kept in the user's cache directory. */
typedef enum neap_costs { NEAP_COSTS_ROOFLINE, NEAP_COSTS_MEASURED } neap_costs;

/* Where the search for a plan stands. */
typedef struct neap_plan_progress {
  double seconds; /* since planning began */
  double cost;    /* of the best schedule so far */
  bool fits;      /* it keeps the budget */
} neap_plan_progress;
typedef void neap_plan_progress_function(const neap_plan_progress *progress, void *context);

/* Graphs that compute the same bits and differ in what they keep: for the gradient of ReLU its output, or a
 * bit an element wherever nothing else needs the output. AUTO plans each and takes the one whose plan is
 * cheaper, or which needs less for NEAP_BUDGET_MIN; BASE where they are equal. */
typedef enum neap_variant { NEAP_VARIANT_AUTO, NEAP_VARIANT_BASE, NEAP_VARIANT_MASK } neap_variant;

/* Zeroed options are usable: SGD without momentum, automatic everything, budget `min`. */
typedef struct neap_session_options {
  uint64_t budget;        /* bytes, NEAP_BUDGET_MIN or NEAP_BUDGET_MAX */
  double budget_fraction; /* not 0: instead of `budget`, of what keeping everything needs */
  /* Not 0: instead of these, bytes that the whole process may take, code, libraries and planning included
   * (the system's VmHWM). What is smallest is then such a number too. */
  uint64_t process_budget;
  const char *planner;                        /* NULL: "auto" */
  const char *plan_file;                      /* replay this plan instead of planning; borrowed */
  bool plan_quick;                            /* as neap_plan_options.quick */
  double plan_seconds;                        /* as neap_plan_options.seconds */
  neap_plan_progress_function *plan_progress; /* as neap_plan_options.progress; NULL: not called */
  void *plan_context;                         /* handed to it */
  const volatile int *plan_stop;              /* as neap_plan_options.stop; NULL: never */
  neap_optimizer optimizer;
  float momentum, weight_decay; /* momentum: SGD and RMSprop; weight_decay: all */
  bool nesterov;                /* SGD */
  /* Zeros: 0.9, 0.999, 1e-8 for Adam and AdamW; 0.9, 0.99 for Lion. RMSprop: beta2 is its alpha, 0.99. */
  float beta1, beta2, epsilon;
  float clip_value; /* not 0: gradients are cut to [-clip_value, clip_value]; then */
  float clip_norm;  /* not 0: the norm of all together is cut to this; all live until it is known */
  const neap_parameter_group *groups; /* borrowed until the session is made */
  int group_count;
  neap_convolution convolution;
  neap_backend backend;
  neap_costs costs;
  neap_variant variant; /* a plan file has its own */
  int threads;          /* 0: all cores of the machine */
  uint64_t seed;        /* initial parameters and random operators */
  bool predict;         /* without gradients and optimizer: only what the graph's outputs need is in memory */
  int32_t micro_batches; /* that a step has, each as large as the graph's batch; 0: 1 */
  neap_dtype precision;  /* BF16 or F16: storage of values, parameters and optimizer states (losses, and what
                            norms need, in f32); updates round at random, so that the mean is exact */
  bool master;           /* parameters and optimizer states stay f32 beside values of 16 bits */
  float loss_scale;      /* that gradients are larger by until the update; 0: 1024 in F16, else 1 */
  bool dynamic_loss_scale; /* begins with loss_scale (0: 65536): halved by a step with a gradient that does
                              not fit its type, whose update is left out; doubled after 2000 that do */
  /* Not 0: the share of their values that sparse parameters keep, with their optimizer states; the rest is 0
   * and not stored. Which ones: those whose names match sparse_layers, with * and ?; NULL: the weights of all
   * convolutions but the first; where there is none, of all linear layers but the last. */
  double sparse_density;
  const char *sparse_layers; /* borrowed until the session is made */
} neap_session_options;

typedef struct neap_session neap_session;

/* Plans, maps the memory, once, and gives the parameters their first values (neap_initial), seeded. No step,
 * evaluation or prediction allocates. A graph without a loss makes a session that only predicts. The graph
 * is borrowed until neap_session_free. NEAP_OVER_BUDGET: `*smallest` is set to the smallest budget that can
 * be met, and the message names it; NULL: it is not asked for, and the message does not. */
neap_status neap_session_create(const neap_graph *graph, const neap_session_options *options,
                                uint64_t *smallest, neap_session **session);
void neap_session_free(neap_session *session);

/* The memory of an input by name, [dims...] in row-major order, to be filled before a step; owned by the
 * session. NULL when there is none of that name, such as labels in a session that only predicts. */
void *neap_session_input(neap_session *session, const char *name);

typedef struct neap_step_result {
  double loss;     /* of the batch, before the update */
  bool skipped;    /* a dynamic loss scale was too large: the update was left out */
  int64_t correct; /* of the last cross-entropy: labels whose logit is the largest; 0 where there is none */
} neap_step_result;

/* Another graph with the same parameters, such as one for shorter sequences, whose steps and evaluations run
 * in this session's memory: they are planned inside it now. `*index` is its number; that of the graph that
 * the session was created with is 0. NEAP_INVALID_ARGUMENT: its variables are others, or an input is larger
 * than the one of its name in graph 0, whose memory it has. NEAP_OVER_BUDGET: its step does not fit. */
neap_status neap_session_add_graph(neap_session *session, const neap_graph *graph, int *index);
/* Which graph the next steps and evaluations run; what neap_session_input gives are its inputs from then on.
 */
neap_status neap_session_select(neap_session *session, int index);

/* One training step. A loss that is not finite is no failure: look at it. `result` may be NULL. */
neap_status neap_session_step(neap_session *session, float learning_rate, neap_step_result *result);

/* One of the micro-batches of a step, each with inputs of its own; the last one updates. `share`: of the
 * whole step's loss, which this one's counts as: its labels that count by those of all. neap_session_step
 * takes equal shares. In between nothing can be saved, loaded or digested. `result` is the micro-batch's. */
neap_status neap_session_micro_step(neap_session *session, float learning_rate, float share,
                                    neap_step_result *result);

/* Loss and accuracy of the batch by running statistics, without dropout. Changes no variable. */
neap_status neap_session_evaluate(neap_session *session, neap_step_result *result);

/* Computes the graph's outputs from the inputs, as an evaluation does; labels do not matter. */
neap_status neap_session_predict(neap_session *session);

/* Sparse parameters change places (dynamic sparse reparameterization: Mostafa and Wang 2019): values below a
 * threshold are dropped, as many new ones begin with 0 at random places, more of them where more values are
 * left; their number in all, and so the memory, stays. The threshold is doubled or halved where less or more
 * than `share` (within a tenth) of all values were dropped. Takes no memory; between steps only. */
neap_status neap_session_rewire(neap_session *session, double share, int64_t *moved);

/* What a session uses. Bytes. */
typedef struct neap_memory {
  uint64_t budget;        /* what was asked for: resolved to bytes */
  uint64_t resident;      /* parameters, optimizer states, running statistics, inputs */
  uint64_t arena;         /* gradients, activations, workspaces */
  uint64_t planned_peak;  /* resident + arena */
  uint64_t measured_peak; /* the highest byte that was really given to a kernel so far, counted apart */
  uint64_t keep_all;      /* what keeping everything needs */
  uint64_t parameters, states, inputs; /* the parts of `resident`; running statistics are states */
  double cost, base_cost;              /* of the plan, and without any recomputation */
  const char *planner;                 /* the row that made the plan; a constant */
  const char *variant;                 /* of the graph, "base" or another; a constant */
} neap_memory;
void neap_session_memory(const neap_session *session, neap_memory *memory);

typedef enum neap_variable_kind {
  NEAP_VARIABLE_PARAMETER,
  NEAP_VARIABLE_STATE, /* of the optimizer, or neap_state */
  NEAP_VARIABLE_RUNNING_STATISTIC,
  NEAP_VARIABLE_POSITIONS /* of a sparse parameter: 1 where it has a value, else 0 */
} neap_variable_kind;

/* Parameters, optimizer states, running statistics, in graph order; data is f32, in row-major order. Sparse
 * ones, and their states, are read as dense tensors; of what is written, the values at their positions are
 * taken. */
typedef struct neap_variable {
  const char *name; /* borrowed from the session */
  neap_variable_kind kind;
  int rank;
  int64_t dims[NEAP_MAX_RANK], elements;
  neap_dtype dtype; /* of storage; values are read and written as f32 */
} neap_variable;
int32_t neap_session_variable_count(const neap_session *session);
neap_status neap_session_variable(const neap_session *session, int32_t index, neap_variable *variable);
neap_status neap_session_read(const neap_session *session, int32_t index, float *data);
neap_status neap_session_write(neap_session *session, int32_t index, const float *data);

/* An output by name (neap_output), after an evaluation or a prediction and before the next step, digest, save
 * or load: its shape, and its elements as f32 in row-major order. Either may be NULL; shapes are known at any
 * time. NEAP_OVER_BUDGET: in a training session, where it does not fit into the arena. */
neap_status neap_session_output(const neap_session *session, const char *name, neap_variable *shape,
                                float *data);

/* SHA-256, as hexadecimal, over all variables, f32 row-major. */
neap_status neap_session_digest(neap_session *session, char digest[65]);

/* All variables as safetensors, with the number of steps done, written whole or not at all; and back, so that
 * training of the same seed and options goes on with the same bits. Reading takes what the file has by name
 * and shape: every parameter must be there, and where a session only predicts every running statistic; other
 * states may be missing (they keep their values). A file that does not suit changes nothing; one that cannot
 * be read to its end leaves what was read. */
neap_status neap_session_save(neap_session *session, const char *path);
neap_status neap_session_load(neap_session *session, const char *path);

/* ---- 5. Train it whole ---- */

/* INVERSE_SQRT: the rate after the warm-up is divided by the root of steps / steps of warm-up. */
typedef enum neap_schedule_kind {
  NEAP_LR_CONSTANT,
  NEAP_LR_STEP,
  NEAP_LR_COSINE,
  NEAP_LR_INVERSE_SQRT
} neap_schedule_kind;

typedef struct neap_train_progress {
  int64_t epoch, epochs, step, steps; /* epochs 0 when `steps` was given; the step just done, from 1 */
  double loss, accuracy;              /* of this step, in [0, 1] */
  double learning_rate, seconds;      /* of this step */
  double images_per_second, seconds_left;
  double test_accuracy, test_loss; /* after an epoch that ends here, or the run; -1: not evaluated */
  double bits_per_byte;            /* of test text, from the test loss; -1: of no text */
  double loss_scale;               /* of the next step, where it is dynamic; else 0 */
  int64_t skipped;                 /* updates that it left out so far, in this process */
  const neap_memory *memory;
} neap_train_progress;

enum { NEAP_MICRO_BATCH_AUTO = -1, NEAP_REWIRE_OFF = -1 };

typedef struct neap_train_options {
  const char *model, *data; /* "wrn-28-2"; "cifar10:DIR", "mnist:DIR", "synthetic" */
  neap_model_options shape; /* zeros for image and classes: those of the data; of "synthetic": the model's
                               usual. Images must be those of the data, classes at least so many */
  neap_session_options session;
  /* Images of a micro-batch, which divide the batch; 0: the batch; NEAP_MICRO_BATCH_AUTO: the most that fit.
   * The session's own number of micro-batches follows from it. */
  int64_t micro_batch;
  /* NEAP_ALLOW_...: takes the techniques of a combination that fits the budget: the first, or the one that
   * costs least (allow_by_time); for the least budget the smallest. */
  unsigned allow;
  bool allow_by_time;
  int64_t rewire_every; /* steps until sparse parameters first change places (neap_session_rewire); 0: 100. It
                           is doubled after 1/8, 2/5 and 7/10 of the run, whose last twentieth has none */
  int64_t steps, epochs; /* one of the two; 0 and 0: one epoch */
  double learning_rate;  /* 0: 0.1 */
  neap_schedule_kind schedule;
  double warmup_epochs;
  int64_t warmup_steps;            /* instead of epochs, where above 0 */
  double step_epochs, step_factor; /* NEAP_LR_STEP: times factor every so many; 0: thirds of the run, 0.1 */
  bool no_shuffle, no_augment, no_evaluation;
  const char *out, *resume; /* checkpoint folders; a process that trains into `out` has it for itself */
  int64_t checkpoint_steps; /* also every so many steps; 0: at the end of an epoch only */
  const char *initial;      /* a safetensors file with the parameters to start from */
  const char *metrics;      /* a JSON line a step, in a new file or behind the lines of the resumed run */
  const char *save_plan;    /* the plan that is used is written here */
  /* Another run's checkpoint beyond step 0 in `out`, and metrics, give way; else NEAP_INVALID_ARGUMENT. */
  bool replace;
  const char *command; /* a text that is kept in `out`, as command.json; see neap_checkpoint_command */
  /* Called before step 1 (progress->step is 0), when nothing of the run is in `out` yet, and after each
   * step; may be NULL. Not 0: stop after writing a checkpoint, with NEAP_INTERRUPTED. */
  int (*progress)(void *context, const neap_train_progress *progress);
  void *context;
} neap_train_options;

/* What the process takes. Bytes; zeros where the system does not say. */
typedef struct neap_process {
  uint64_t peak;     /* the most so far (VmHWM) */
  uint64_t code;     /* at the start: code, libraries, what the caller has */
  uint64_t data;     /* the data set */
  uint64_t kernels;  /* graphs, kernels and the plan, which stay */
  uint64_t planning; /* the most while planning, all included; given back before training */
} neap_process;

typedef struct neap_train_result {
  char combination[48], precision[8]; /* of techniques, "none"; "f32" */
  int64_t batch, micro_batches, parameters, steps;
  int64_t steps_here; /* without those before a run was resumed; they took `seconds` */
  double seconds, step_seconds_median, loss, accuracy;
  double test_accuracy, test_loss; /* -1: not evaluated here */
  double bits_per_byte;            /* of test text; -1: of no text, or not evaluated */
  neap_memory memory;
  /* Beyond the session's own bytes after the first step; and what the process grew by at most since the
   * session was made, without what planning took: the peak that the system tells (VmHWM) is reset there. */
  uint64_t process_overhead_bytes, rss_growth_bytes;
  neap_process process;
  char weights_sha256[65];
  /* With NEAP_OVER_BUDGET, where memory.budget is what was asked for. */
  uint64_t smallest_budget; /* that would do; of the process, where its budget was given */
  int64_t largest_batch;    /* that fits the budget; 0: none does */
  bool direct_fits;         /* NEAP_CONV_DIRECT, where it was not asked for, would fit the budget */
} neap_train_result;

/* Trains. `result` is filled as far as it got, with any status. NEAP_OVER_BUDGET fills the last three.
 * NEAP_DIVERGED: the loss of a step, or weights that were to be kept, are not finite; the checkpoint in `out`
 * is the last one before that. */
neap_status neap_train(const neap_train_options *options, neap_train_result *result);

typedef struct neap_evaluation {
  int64_t batch, images, step, epoch; /* images: of the test set; step and epoch: done by the checkpoint */
  double loss, accuracy;              /* means over the labels of the test set */
  double bits_per_byte;               /* of its text; -1: of no text */
  neap_memory memory;
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: that would do */
  char weights_sha256[65];
} neap_evaluation;

/* Evaluates the checkpoint in `options->resume` on the test set. Of the options those of a session, the
 * model, its shape and the data count; nothing is written. Another batch changes no more than rounding. */
neap_status neap_evaluate(const neap_train_options *options, neap_evaluation *result);

/* What to predict. Zeroed but for model, weights, data and out it is usable. */
typedef struct neap_predict_options {
  const char *model, *weights, *data; /* a ready-made model, a file of safetensors, a data set */
  const char *out;                    /* the file that is written: NumPy's, f32 [records, ...] */
  const char *output;                 /* which output of the model; NULL: "logits" */
  bool training_records;              /* instead of the test set's */
  neap_model_options shape;
  neap_session_options session; /* budget, threads, backend, convolution; the rest does not matter */
} neap_predict_options;

typedef struct neap_predict_result {
  int64_t records;
  int rank;
  int64_t dims[NEAP_MAX_RANK]; /* of what is in the file */
  double accuracy;             /* where there is a value for each class: right answers by record; else -1 */
  neap_memory memory;          /* weights, a batch and the prediction's arena */
  uint64_t smallest_budget;    /* with NEAP_OVER_BUDGET: that would do */
} neap_predict_result;

/* Runs a model over all records of a set, in their order. The file is written whole or not at all. */
neap_status neap_predict(const neap_predict_options *options, neap_predict_result *result);

/* What text to make. Zeroed but for model, folder and tokens it is usable: the most likely text. */
typedef struct neap_generate_options {
  const char *model;        /* a language model */
  neap_model_options shape; /* as it was trained; zeros: the usual length, the tokenizer's vocabulary */
  const char *folder;       /* a checkpoint's; or, of another place: */
  const char *weights, *tokenizer; /* a file of safetensors, a tokenizer file */
  const char *prompt;              /* what the text goes on from; NULL or "": the beginning of a line */
  int64_t tokens;                  /* to make at most; fewer where the model has no places for them */
  double temperature;              /* logits are divided by it; 0: always the most likely token */
  int64_t top_k;                   /* only so many, the most likely, are chosen from; 0: all */
  uint64_t seed;                   /* what is chosen hangs on it and the place in the text */
  bool special;                    /* special tokens may be chosen, too; they stand for no text */
  neap_session_options session;    /* budget, threads, backend, precision; the rest does not matter */
  /* Called with each piece of the text as it comes, prompt excluded: whole characters, where they are UTF-8.
   * Borrowed bytes, without a 0. Not 0: stop, with NEAP_INTERRUPTED. May be NULL. */
  int (*text)(void *context, const char *bytes, size_t length);
  void *context;
} neap_generate_options;

typedef struct neap_generate_result {
  int64_t prompt_tokens, tokens; /* read; made */
  double seconds;                /* for both */
  neap_memory memory;            /* weights, what earlier tokens left, the arena of one token */
  uint64_t smallest_budget;      /* with NEAP_OVER_BUDGET: that would do */
} neap_generate_result;

/* Makes text, token by token: a token takes the time of one, whatever went before it. The same options give
 * the same text. NEAP_BAD_FORMAT: the prompt has a character that the tokenizer does not know; the message
 * names its line and column. */
neap_status neap_generate(const neap_generate_options *options, neap_generate_result *result);

/* The text kept with a checkpoint (neap_train_options.command), or NULL; the caller frees it. */
neap_status neap_checkpoint_command(const char *folder, char **text);

/* The largest batch, up to `shape->batch`, with which a ready-made model fits the budget of the options; 0:
 * none does. Plans by the options' planner; a larger batch is taken to need no less memory. A budget's
 * fraction is one of what keeping everything needs at `shape->batch`. */
neap_status neap_largest_batch(const char *model, const neap_model_options *shape,
                               const neap_session_options *options, int64_t *largest);

/* The largest micro-batch, a divisor of `shape->batch`, with which a ready-made model fits the budget; 1
 * where none does. A fraction is one of what keeping everything needs with the whole batch. */
neap_status neap_largest_micro_batch(const char *model, const neap_model_options *shape,
                                     const neap_session_options *options, int64_t *largest);

/* Techniques that make a step smaller, and may be taken together. */
enum {
  NEAP_ALLOW_MICRO = 1,
  NEAP_ALLOW_BF16 = 2,
  NEAP_ALLOW_F16 = 4,
  NEAP_ALLOW_SPARSE = 8, /* with the density and layers of the session options; else these are not used */
  NEAP_COMBINATIONS = 12
};
typedef struct neap_combination {
  char name[48];       /* "none", "micro=10+f16+sparse=0.3" */
  int64_t micro_batch; /* images; 0: the batch */
  neap_dtype precision;
  double sparse_density;
  bool fits;
  uint64_t peak_bytes; /* of its plan; the least that it needs, where it does not fit */
  double cost;         /* of the whole step, by the costs of planning */
  double overhead;     /* of its plan over keeping everything */
} neap_combination;

/* Plans a model's step in each combination that is allowed, from the least change to the most: none, micro,
 * bf16, f16, sparse, then pairs, then all three. list[NEAP_COMBINATIONS]. A budget's fraction is one of the
 * whole, dense step's in f32. */
neap_status neap_combinations(const char *model, const neap_model_options *shape,
                              const neap_session_options *options, unsigned allowed, neap_combination *list,
                              int *count);
/* Of those that fit the first, the one that costs least, or the one with the least peak; -1: none fits. */
typedef enum neap_prefer { NEAP_PREFER_FIDELITY, NEAP_PREFER_TIME, NEAP_PREFER_MEMORY } neap_prefer;
int neap_best_combination(const neap_combination *list, int count, neap_prefer prefer);

/* ---- 6. Plan without data ---- */

typedef struct neap_step neap_step; /* as planners see it: bytes, costs, edges (a graph file) */
typedef struct neap_plan neap_plan; /* a schedule with its offsets (a plan file) */

neap_status neap_step_read(const char *path, neap_step **step);
neap_status neap_step_write(const neap_step *step, const char *path);
void neap_step_free(neap_step *step);

/* A list of ids for every node: those of node v are ids[start[v]] up to, not including, ids[start[v + 1]].
 * Without `start` each node has one; without both none has any. */
typedef struct neap_lists {
  const int64_t *start; /* [node_count + 1], never falling */
  const int32_t *ids;
} neap_lists;

typedef enum neap_role { NEAP_ROLE_VALUE, NEAP_ROLE_INPUT, NEAP_ROLE_PARAMETER, NEAP_ROLE_STATE } neap_role;
typedef enum neap_pass { NEAP_PASS_FORWARD, NEAP_PASS_BACKWARD, NEAP_PASS_UPDATE } neap_pass;

/* An output of a node may take over the bytes of an input whose last read this is; positions in its lists. */
typedef struct neap_inplace {
  int32_t node, output, input;
} neap_inplace;

/* A step in plain arrays. Tensors and nodes are numbered from 0 and nodes stand in an order in which they can
 * run. What is zero or NULL has a default, so the least is: counts, tensor_bytes, inputs and outputs. */
typedef struct neap_step_arrays {
  const char *name;
  int32_t tensor_count, node_count, step_output_count;
  const uint64_t *tensor_bytes;      /* [tensor_count] */
  const neap_role *tensor_roles;     /* [tensor_count]; NULL: what a node makes is a value, what one updates a
                                        parameter, the rest are inputs. All but values are resident */
  const char *const *tensor_names;   /* [tensor_count]; NULL: "tensor 0", ... */
  const double *node_costs;          /* [node_count], any unit; NULL: 1 each */
  const uint64_t *node_workspaces;   /* [node_count], bytes while the node runs; NULL: 0 */
  const neap_pass *node_passes;      /* [node_count]; NULL: all forward, which no planner of chains takes */
  const bool *node_repeatable;       /* [node_count]; NULL: all may run again (one with updates never does) */
  const char *const *node_names;     /* [node_count]; NULL: "node 0", ... */
  const char *const *node_operators; /* [node_count]; NULL: "" */
  neap_lists inputs, outputs;        /* tensor ids that a node reads, and makes */
  neap_lists updates;                /* tensor ids that a node changes, after all other readers */
  const int32_t *step_outputs;       /* [step_output_count] tensor ids that live to the end of the step */
  int64_t inplace_count;
  const neap_inplace *inplace; /* [inplace_count]; those of one node are tried in their order */
} neap_step_arrays;

/* Copies and checks. NEAP_INVALID_ARGUMENT names the node or tensor: a cycle or wrong order, a value with two
 * producers or none, an id out of range, a sum that overflows, a negative cost. Linear in the sizes. */
neap_status neap_step_create(const neap_step_arrays *arrays, neap_step **step);

/* The training step of a graph as a session would run it: real layouts, bytes and costs. AUTO: the base. */
neap_status neap_step_from_graph(const neap_graph *graph, const neap_session_options *options,
                                 neap_step **step);

typedef struct neap_step_info {
  const char *name; /* borrowed */
  int32_t tensors, nodes;
  uint64_t resident_bytes;
  double base_cost;
} neap_step_info;
void neap_step_describe(const neap_step *step, neap_step_info *info);

/* The bytes that training takes without any recomputation: what a budget's fraction is one of. */
neap_status neap_step_keep_all_bytes(const neap_step *step, uint64_t *bytes);

typedef struct neap_plan_info {
  const char *graph, *planner; /* borrowed from the plan */
  uint64_t peak_bytes;         /* resident + arena: what a budget is held against */
  uint64_t resident_bytes, arena_bytes;
  uint64_t lower_bound_bytes;      /* no plan, whatever its budget, has a lower peak; 0: not known */
  double cost, base_cost, seconds; /* seconds: what planning took */
  double cost_lower_bound;         /* no plan within the budget costs less; 0: not known, the plan was read */
  int64_t length, recomputed;      /* of the schedule; of it, repeats */
  bool proven_optimal;
} neap_plan_info;

/* Plans inside `budget` bytes, resident ones and the arena included, with one planner by name or "auto";
 * NEAP_BUDGET_MAX keeps everything, whichever is named. Offsets are multiples of 64 bytes where all sizes
 * are, else of what divides all sizes, down to 1: give sizes that are multiples of the alignment that your
 * kernels need. NEAP_OVER_BUDGET: `*smallest` is set to the smallest budget found that can be met, or to 0
 * where the planner has no plan for such a step under any budget; the message says why. NULL: not sought. */
neap_status neap_plan_make(const neap_step *step, uint64_t budget, const char *planner, uint64_t *smallest,
                           neap_plan **plan);

/* How to plan. Zeroed: the effort that neap_plan_make spends, the same plan on every machine. */
typedef struct neap_plan_options {
  const char *planner; /* NULL: "auto" */
  bool quick;     /* any plan within the budget will do; where none is found `*smallest` is 0, not sought */
  double seconds; /* above 0: the search takes so many at most, and what it finds hangs on the machine */
  neap_plan_progress_function *progress; /* called a few times a second while a search goes on; NULL: not */
  void *context;                         /* handed to it */
  /* Set to other than 0, to stay so, by another thread or a signal handler: planning ends within a second,
   * with NEAP_INTERRUPTED, but for the solver of the planner checkmate. NULL: never. */
  const volatile int *stop;
} neap_plan_options;
neap_status neap_plan_make_with(const neap_step *step, uint64_t budget, const neap_plan_options *options,
                                uint64_t *smallest, neap_plan **plan);

/* The plan that a session with these options would run, and the step that it is for: in the variant that pays
 * within the budget, "GRAPH+VARIANT" by name. A budget's fraction is one of what the base needs to keep
 * everything. NEAP_OVER_BUDGET: `*smallest` is set as by neap_plan_make. */
neap_status neap_plan_graph(const neap_graph *graph, const neap_session_options *options, uint64_t *smallest,
                            neap_step **step, neap_plan **plan);
void neap_plan_free(neap_plan *plan);
void neap_plan_describe(const neap_plan *plan, neap_plan_info *info);
const int32_t *neap_plan_schedule(const neap_plan *plan, int64_t *length); /* node ids; borrowed */

/* An instance as a plan file has it. */
typedef struct neap_placement {
  int32_t at, tensor; /* position that makes it; -1: the workspace of that position */
  uint64_t offset, bytes;
} neap_placement;

/* A plan in plain arrays, with what a plan file says of it. */
typedef struct neap_plan_arrays {
  const char *graph, *planner; /* NULL: "" */
  const int32_t *schedule;     /* [length] node ids */
  int64_t length;
  const neap_placement *instances; /* [instance_count], in the order of a plan file */
  int64_t instance_count;
  uint64_t resident_bytes, peak_bytes, arena_bytes; /* peak_bytes: resident + the largest live bytes */
  double cost, base_cost;
} neap_plan_arrays;

/* Copies. What the plan says is not held against any step: that is neap_plan_check's work. NEAP_TOO_LARGE:
 * more than 2^31 - 3 positions or instances. NEAP_INVALID_ARGUMENT: an array or all of them are missing. */
neap_status neap_plan_create(const neap_plan_arrays *arrays, neap_plan **plan);

neap_status neap_plan_read(const char *path, neap_plan **plan);
/* NEAP_INVALID_PLAN: the plan, made by neap_plan_create, has a number that no plan file can hold. */
neap_status neap_plan_write(const neap_plan *plan, const char *path);

/* The independent checker, by the rules of the formats alone. NEAP_INVALID_PLAN: `reason` names the rule. */
typedef struct neap_check_result {
  bool valid;
  uint64_t peak_bytes; /* resident + the largest live bytes, as in a plan file: without gaps in the arena */
  double cost;
  int64_t position; /* in the schedule, where a rule is broken; -1: nowhere in particular */
  char reason[256];
} neap_check_result;
neap_status neap_plan_check(const neap_step *step, const neap_plan *plan, neap_check_result *result);

/* What bytes are for. */
typedef enum neap_memory_kind {
  NEAP_KIND_PARAMETER,
  NEAP_KIND_STATE,
  NEAP_KIND_INPUT,
  NEAP_KIND_GRADIENT,
  NEAP_KIND_KEPT,       /* made once */
  NEAP_KIND_RECOMPUTED, /* an instance of a value that is made more than once */
  NEAP_KIND_WORKSPACE,
  NEAP_KIND_COUNT
} neap_memory_kind;

/* A value made at one position of the schedule (again where its node repeats), or its workspace. */
typedef struct neap_instance {
  int32_t tensor;         /* -1: workspace */
  int32_t first, last;    /* positions: it is made, it is read last */
  bool in_place;          /* at `first` it lies in the bytes of an input that it takes over */
  neap_memory_kind kind;  /* never one that is resident */
  uint64_t offset, bytes; /* in the arena */
} neap_instance;

/* All instances of a valid plan of the step, in the order of the schedule; a node's outputs in their order,
 * then its workspace. The array belongs to the caller, free() it. */
neap_status neap_plan_instances(const neap_step *step, const neap_plan *plan, neap_instance **instances,
                                int64_t *count);

/* Live bytes by kind, what `neap show` draws: `live` is [length of neap_plan_schedule][NEAP_KIND_COUNT]. */
neap_status neap_plan_profile(const neap_step *step, const neap_plan *plan, uint64_t *live);

/* Name and bytes of a tensor, name and operator of a node; names are borrowed from the step. */
neap_status neap_step_tensor(const neap_step *step, int32_t tensor, const char **name, uint64_t *bytes);
neap_status neap_step_node(const neap_step *step, int32_t node, const char **name, const char **op);

/* ---- 7. Layout ---- */

/* A buffer lives from position `lower` up to, not including, `upper`. */
typedef struct neap_buffer {
  int64_t lower, upper;
  uint64_t size, offset;
} neap_buffer;

typedef struct neap_layout_result {
  uint64_t height, lower_bound; /* lower_bound: the largest sum of sizes that live at one position */
  bool proven_optimal;
} neap_layout_result;

/* Sets every offset so that no two buffers that live at one position overlap: with capacity 0 as low as the
 * work of a few seconds finds, else as soon as it is within the capacity. `proven_optimal`: no layout is
 * lower. NEAP_OVER_BUDGET, where none was found within the capacity: the message says whether there is none
 * at all, and offsets and result are those of the least height found. NEAP_TOO_LARGE: no layout below 2^64 -
 * 1 was found. NEAP_INVALID_ARGUMENT: a buffer does not end after it begins. Deterministic. */
neap_status neap_layout_solve(neap_buffer *buffers, int64_t count, uint64_t capacity,
                              neap_layout_result *result);

/* CSV of minimalloc: id,lower,upper,size in, blanks around them allowed. The caller frees the array. */
neap_status neap_layout_read_csv(const char *path, neap_buffer **buffers, int64_t *count);
/* The same with offset out. `source`: the file that the buffers were read from, whose ids its rows get. */
neap_status neap_layout_write_csv(const char *path, const char *source, const neap_buffer *buffers,
                                  int64_t count);

/* ---- 8. What there is ---- */

typedef struct neap_row {
  const char *name, *summary;
  const char *source;       /* the paper, or NULL */
  const char *graphs;       /* of a planner: which it takes */
  const char *promise;      /* of a planner: what holds for its plans, beyond being valid */
  int32_t auto_limit;       /* of a planner: "auto" asks it for steps of at most so many nodes */
  const char *const *types; /* of an operator: the types of real numbers that it takes, and then NULL */
} neap_row;
/* Row `index` of each table; false past its end. */
bool neap_planner_at(int32_t index, neap_row *row);
bool neap_operator_at(int32_t index, neap_row *row);
bool neap_optimizer_at(int32_t index, neap_row *row); /* in the order of neap_optimizer */
bool neap_model_at(int32_t index, neap_row *row);

/* What an operator is given besides tensors. */
typedef struct neap_attribute {
  char name[32];
  const char *type; /* "integer", "real" or "flag" */
  int32_t count;    /* of an array; else 1 */
  double usual;     /* what 0 stands for; 0: itself, or the operator's call in this header says what */
} neap_attribute;
/* Attribute `index` of row `op` of neap_operator_at; false past the last. */
bool neap_attribute_at(int32_t op, int32_t index, neap_attribute *attribute);

/* ---- 9. Files ---- */

/* Whole, under a temporary name that then takes the place of `path`, or not at all; a device, a pipe and what
 * standard output goes to as they are. */
neap_status neap_write_file(const char *path, const char *bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
