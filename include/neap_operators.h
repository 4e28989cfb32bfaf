/* The operators of networks. Each takes tensors of a graph under construction (neap_graph.h) and gives one;
 * what fails, fails in neap_builder_finish. */
#ifndef NEAP_OPERATORS_H
#define NEAP_OPERATORS_H

#include "neap_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Convolution of x [N, C, H, W] with `filters` kernels of size x size: [N, filters, H', W'], H' = (H + 2
 * padding - dilation (size - 1) - 1) / stride + 1. Zero means 1 for stride, dilation, groups. For kernels
 * that are not square, values by axis replace size and padding if they are not zero. */
typedef struct neap_conv_options {
  int64_t filters, size, stride, padding, dilation, groups;
  bool bias;
  int64_t kernel_height, kernel_width, padding_height, padding_width;
} neap_conv_options;
neap_tensor neap_conv(neap_builder *b, neap_tensor x, neap_conv_options options);
/* Convolution with given parameters: weight [filters, C / groups, R, S], bias [filters] or negative. Of the
 * options only stride, padding, dilation and groups are used. */
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

/* Normalises as batch norm does, over the last axis of x [..., K]: gamma and beta [K]. Zero means 1e-5. */
neap_tensor neap_layer_norm(neap_builder *b, neap_tensor x, float epsilon);
/* x / sqrt(mean of squares + epsilon) * gamma over the last axis. Zero means 2^-23, as in PyTorch. */
neap_tensor neap_rms_norm(neap_builder *b, neap_tensor x, float epsilon);
/* Layer norm over each of `groups` groups of the channels of x [N, C, ...], with gamma and beta [C]. */
neap_tensor neap_group_norm(neap_builder *b, neap_tensor x, int64_t groups, float epsilon);

/* Functions of each element. */
neap_tensor neap_relu(neap_builder *b, neap_tensor x);      /* max(0, x) */
neap_tensor neap_relu6(neap_builder *b, neap_tensor x);     /* min(max(0, x), 6) */
neap_tensor neap_gelu(neap_builder *b, neap_tensor x);      /* x (1 + erf(x / sqrt 2)) / 2 */
neap_tensor neap_gelu_tanh(neap_builder *b, neap_tensor x); /* its approximation by tanh */
neap_tensor neap_silu(neap_builder *b, neap_tensor x);      /* x / (1 + e^-x) */
neap_tensor neap_sigmoid(neap_builder *b, neap_tensor x);   /* 1 / (1 + e^-x) */
neap_tensor neap_tanh(neap_builder *b, neap_tensor x);
neap_tensor neap_exp(neap_builder *b, neap_tensor x);
neap_tensor neap_log(neap_builder *b, neap_tensor x);
neap_tensor neap_erf(neap_builder *b, neap_tensor x); /* error function */
neap_tensor neap_sqrt(neap_builder *b, neap_tensor x);
neap_tensor neap_power(neap_builder *b, neap_tensor x, float exponent);
neap_tensor neap_clip(neap_builder *b, neap_tensor x, float lowest, float highest);
neap_tensor neap_scale(neap_builder *b, neap_tensor x, float factor, float offset); /* factor x + offset */

/* Gated units of x [..., 2K], whose halves along the last axis are a and b: [..., K]. */
neap_tensor neap_glu(neap_builder *b, neap_tensor x);    /* a sigmoid(b) */
neap_tensor neap_swiglu(neap_builder *b, neap_tensor x); /* silu(a) b */
neap_tensor neap_geglu(neap_builder *b, neap_tensor x);  /* gelu(a) b */

/* Converts to f32, bf16 or f16, to the nearest; f16 replaces values that are too large by its largest number.
 * All operators take all three types, and compute in f32. Results have the type of the first input, but
 * losses are f32. Layers make parameters of the type of their input; norms make f32. */
neap_tensor neap_cast(neap_builder *b, neap_tensor x, neap_dtype dtype);

/* Functions of two tensors, whose dimensions from the last one on are equal, or 1 in one of them. */
neap_tensor neap_add(neap_builder *b, neap_tensor x, neap_tensor y);
neap_tensor neap_subtract(neap_builder *b, neap_tensor x, neap_tensor y);
neap_tensor neap_multiply(neap_builder *b, neap_tensor x, neap_tensor y);
neap_tensor neap_divide(neap_builder *b, neap_tensor x, neap_tensor y);

/* Gives x where the mask (u8, broadcast) is not 0, else y, of x's shape. neap_masked_fill gives `value`
 * there, which may be -INFINITY, else x. */
neap_tensor neap_where(neap_builder *b, neap_tensor mask, neap_tensor x, neap_tensor y);
neap_tensor neap_masked_fill(neap_builder *b, neap_tensor x, neap_tensor mask, float value);

/* Reductions over `count` axes; NULL: all. `keep`: these axes stay, with length 1. A sum over all is [1]. */
neap_tensor neap_sum(neap_builder *b, neap_tensor x, const int *axes, int count, bool keep);
neap_tensor neap_mean(neap_builder *b, neap_tensor x, const int *axes, int count, bool keep);
/* Expands axes of length 1, and new axes in front, to the lengths in `dims`. */
neap_tensor neap_expand(neap_builder *b, neap_tensor x, int rank, const int64_t *dims);
/* Divides e^x by its sum along an axis. */
neap_tensor neap_softmax(neap_builder *b, neap_tensor x, int axis);
/* Axis i of the result is axis order[i] of x. NULL: all axes reversed. */
neap_tensor neap_transpose(neap_builder *b, neap_tensor x, const int *order);
/* Splits into equal parts along an axis: parts[count], all negative after a failure. */
void neap_split(neap_builder *b, neap_tensor x, int axis, int count, neap_tensor *parts);

/* Looks up rows of a table [rows, width] by numbers ids [...] of i32: [..., width]. A number outside the
 * table gives 0. neap_embedding makes the table, normal with deviation 1; for another one use neap_parameter
 * and neap_gather. */
neap_tensor neap_gather(neap_builder *b, neap_tensor table, neap_tensor ids);
neap_tensor neap_embedding(neap_builder *b, neap_tensor ids, int64_t rows, int64_t width);

/* Convolution over time of x [N, T, C] by heads, of C / H channels each: y[n, t, c] is the sum over k of w[h,
 * k] x[n, t + k - padding, c], h the head of c; rows outside [0, T) are zeros. w [H, K], or [N, T, H, K]: a
 * kernel for every time. `padding` is in [0, K); with K - 1 no time reads a later one. The weights are not
 * normalised: lightweight and dynamic convolution (Wu et al. 2019) take them from neap_softmax. */
neap_tensor neap_sequence_conv(neap_builder *b, neap_tensor x, neap_tensor w, int64_t padding);
/* Computes only the rows of the result from time `first` in [0, T) on, [N, T - first, C]; w [H, K], or [N, T
 * - first, H, K] for these times. */
neap_tensor neap_sequence_conv_from(neap_builder *b, neap_tensor x, neap_tensor w, int64_t padding,
                                    int64_t first);

/* Multiplies x [..., m, k] and y [..., k, n], either one given as its transpose: [..., m, n]. Batches
 * broadcast. */
neap_tensor neap_matmul(neap_builder *b, neap_tensor x, neap_tensor y, bool x_transposed, bool y_transposed);

/* Gives the lower triangular L of symmetric positive definite matrices x = L L^T [..., n, n]. Only the lower
 * triangle of x is read; above its diagonal L is 0. The gradient of x is symmetric: half of what an element
 * and its mirror image change together. Of a matrix that is not positive definite, L has NaN in the first
 * column that shows it, from the diagonal on, and in what follows from that. log det x is twice the sum of
 * the logarithms of L's diagonal: neap_take of L as [..., n * n], with a step of n + 1. */
neap_tensor neap_cholesky(neap_builder *b, neap_tensor x);
/* Solves L y = x [..., n, m]; `right`: y L = x [..., m, n]. `transposed`: L^T in place of L. L [..., n, n]
 * has the batch of x; only its lower triangle is read, and its gradient is 0 above the diagonal. */
neap_tensor neap_triangular_solve(neap_builder *b, neap_tensor l, neap_tensor x, bool transposed, bool right);

/* Joins `count` tensors, equal in all but one axis, along that axis: channels are axis 1. */
neap_tensor neap_concat(neap_builder *b, const neap_tensor *parts, int count, int axis);
/* Takes the `count` elements of an axis of x from `first` on. */
neap_tensor neap_slice(neap_builder *b, neap_tensor x, int axis, int64_t first, int64_t count);

/* The border: what stands for a place outside an axis: nothing (such a place is refused), a constant, the
 * element at the nearer end, the element that lies as far inside from that end as the place lies outside, or
 * the element that an endless repetition of the axis has there. */
typedef enum neap_border {
  NEAP_BORDER_NONE,
  NEAP_BORDER_CONSTANT,
  NEAP_BORDER_EDGE,
  NEAP_BORDER_REFLECT,
  NEAP_BORDER_WRAP
} neap_border;
typedef struct neap_take_options {
  int64_t first;
  int64_t step;    /* 0: 1; may be negative */
  int64_t divisor; /* 0: 1; positive */
  neap_border border;
  float value; /* of places outside, with NEAP_BORDER_CONSTANT */
} neap_take_options;
/* Takes `count` elements of an axis of x: element i of the result is the one at place floor((first + i step)
 * / divisor). Steps, other orders, padding, repetition and resizing to the nearest element are such places;
 * the gradient of an element is the sum over the places where it was read. */
neap_tensor neap_take(neap_builder *b, neap_tensor x, int axis, int64_t count, neap_take_options options);

/* Divides by the response of neighbours: x / (k + alpha / size * sum of squares over `size` neighbouring
 * channels)^beta of x [N, C, H, W]; channels beyond the ends count as 0. Zeros mean size 5, alpha 1e-4, beta
 * 0.75, k 1. */
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

/* Means over size x size regions that cover x [N, C, H, W]: [N, C, size, size]. Region i of an axis of H
 * pixels is floor(i H / size) to ceil((i + 1) H / size), as in PyTorch. */
neap_tensor neap_adaptive_average_pool(neap_builder *b, neap_tensor x, int64_t size);

/* Takes height x width pixels of x [N, C, H, W] from row `top` and column `left` on. */
typedef struct neap_crop_options {
  int64_t top, left, height, width;
} neap_crop_options;
neap_tensor neap_crop(neap_builder *b, neap_tensor x, neap_crop_options options);

/* Bilinear interpolation of x [N, C, H, W] to [N, C, height, width], as PyTorch's interpolate. With
 * `align_corners` the corner pixels keep their places: pixel i is read at i (H - 1) / (height - 1). Otherwise
 * the edges do: it is read at (i + 1/2) H / height - 1/2, but not below 0. */
neap_tensor neap_resize(neap_builder *b, neap_tensor x, int64_t height, int64_t width, bool align_corners);

/* Computes x W^T + b of x [..., K]: [..., outputs], with W [outputs, K] and b [outputs], or without b. */
neap_tensor neap_linear(neap_builder *b, neap_tensor x, int64_t outputs, bool bias);
neap_tensor neap_linear_with(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias);

/* Recurrent layers over a sequence, as PyTorch's LSTM and GRU. The sequence is given in `count` parts, in
 * order: x[i] [T_i, N, K], the times first, gives y[i] [T_i, N, width]. All parts share the parameters, in
 * each layer: weight_ih [g width, K], weight_hh [g width, width], bias_ih and bias_hh [g width], g 4 in an
 * LSTM (i, f, g, o) and 3 in a GRU (r, z, n), uniform in +-1 / sqrt(width). The division into parts does not
 * change the bits; a step keeps, recomputes and holds in memory one part at a time. */
typedef struct neap_recurrent_state {
  neap_tensor h, c; /* [N, width]; c: only for an LSTM, always f32 */
} neap_recurrent_state;
typedef struct neap_recurrent_weights { /* of a layer; for an LSTM bias_ih is the sum of both biases, and
                                           bias_hh is unused */
  bool made;
  neap_tensor weight_ih, weight_hh, bias_ih, bias_hh;
} neap_recurrent_weights;
typedef struct neap_recurrent_options {
  int64_t width;
  int layers;                          /* each takes the result of the one before; 0: 1 */
  float dropout;                       /* between layers */
  const neap_recurrent_state *initial; /* [layers] states before the first time; NULL: zeros */
  neap_recurrent_state *last;      /* [layers] is set to the states after the last time; NULL: not wanted */
  neap_recurrent_weights *weights; /* [layers] zeroed: set by this call, for further calls that continue the
                                      sequence; NULL: only for this call */
} neap_recurrent_options;
void neap_lstm(neap_builder *b, const neap_tensor *x, int count, neap_recurrent_options options,
               neap_tensor *y);
void neap_gru(neap_builder *b, const neap_tensor *x, int count, neap_recurrent_options options,
              neap_tensor *y);

/* Gives the same elements in row-major order another shape; one dimension may be -1. */
neap_tensor neap_reshape(neap_builder *b, neap_tensor x, int rank, const int64_t *dims);
neap_tensor neap_flatten(neap_builder *b, neap_tensor x); /* [N, ...] -> [N, rest] */

/* Zeroes an element with `probability` and scales the others by 1 / (1 - probability); does nothing in
 * evaluation. The mask is a function of seed, step, node and element: recomputed, never stored. */
neap_tensor neap_dropout(neap_builder *b, neap_tensor x, float probability);

/* Computes softmax(q k^T scale) v by sequence and head, in one pass over blocks of keys: the scores of all
 * queries and keys are never in memory together (Rabe and Staats 2021; Dao et al. 2022). Queries [N, T, H,
 * D], keys and values [N, S, G, D]; G divides H: query head h reads key head h / (H / G). The result is [N,
 * T, H, D]. If packed, k and v are not given and q is [N, T, H + 2 G, D]: the heads of queries, then those of
 * keys, then those of values, as one linear layer gives them; S = T.
 *
 * Query i has the place of key p = i + S - T. It sees key j if all of these hold: j < lengths[n], if
 * `lengths` [N] of NEAP_I32 are given; j <= p, if attention is causal; p - window < j < p + window, if there
 * is a window. A query that sees no key gives 0. Zeroed options have these meanings: */
typedef struct neap_attention_options {
  int64_t key_heads; /* G of packed operands; 0: as many as query heads. If not packed: 0 */
  bool causal;
  int64_t window; /* 0: no window */
  float scale;    /* 0: 1 / sqrt(D) */
  float dropout;  /* probability that a weight of the softmax is zeroed, as neap_dropout does; in [0, 1) */
  float cap;      /* above 0: scaled scores s become cap tanh(s / cap); 0: they stay */
  /* Instead of a window, a list of these with ; between them, of which layer i has entry i modulo their
   * number. An entry may be several in brackets, [P;P], at most 8 and the heads: the heads take them in turn.
   * A query sees the keys j that its pattern names. NULL: none. All but windows need S = T.
   *     dense; window:W  every key; p - W < j < p + W
   *     strided:L        p - j is a multiple of L (Child et al. 2019: the second part of their strided one)
   *     fixed:L,C        p and j lie in a block of L rows, or j is in its last C (the same); without `places`
   *     dilated:W,G      j = p + G t, -W < t < W (Beltagy et al. 2020)
   *     ,global=N        behind one of these, or alone as an entry, beside `window`: the first N keys, too;
   *                      global=first is one. Without `places`; all patterns of a layer's heads have one N */
  const char *pattern;
  int64_t layer; /* which layer this is, from 0 */
} neap_attention_options;
/* Attention; k, v and lengths are negative if not given. */
neap_tensor neap_attention(neap_builder *b, neap_tensor q, neap_tensor k, neap_tensor v, neap_tensor lengths,
                           neap_attention_options options);

/* Attention in rows that hold several sequences, one after the other. `places` [N, T] of NEAP_I32 gives the
 * place of query i within its own sequence, which sees no key before its first: j >= p - places[n, i].
 * Negative: not given. */
neap_tensor neap_attention_at(neap_builder *b, neap_tensor q, neap_tensor k, neap_tensor v,
                              neap_tensor lengths, neap_tensor places, neap_attention_options options);

/* Rotary position embedding (Su et al. 2021) of x [N, T, heads, D]: at row t, elements d and d + D / 2 of
 * each of the first `heads` heads (0: all) are rotated as a point of the plane by the angle (t + first)
 * base^(-2 d / D) (base 0: 10000); other heads are copied. D is even. For packed queries, keys and values [N,
 * T, H + 2 G, D], rotate the first H + G heads. */
neap_tensor neap_rotary(neap_builder *b, neap_tensor x, int64_t heads, float base, int64_t first);

/* Rotary position embedding whose first row is at place `position` [1] of i32, read when the graph runs. */
neap_tensor neap_rotary_at(neap_builder *b, neap_tensor x, int64_t heads, float base, neap_tensor position);

/* Sinusoidal position embedding [length, width] of f32, a constant (Vaswani et al. 2017, as their code has
 * it): at row t, element d < width / 2 is the sine of (t + first) 10000^(-d / (width / 2 - 1)), element d +
 * width / 2 its cosine. The width is even. */
neap_tensor neap_positions(neap_builder *b, int64_t length, int64_t width, int64_t first);

/* Mixtures of experts (Shazeer et al. 2017): each row goes to the `count` experts with its highest scores,
 * the first of equal ones. `normalised`: their weights sum to 1; else those of all experts do (softmax). */
typedef struct neap_route_options {
  int64_t count;
  bool normalised;
} neap_route_options;

/* The places of rows. Sorted by expert, there are N * count rows. */
typedef struct neap_routes {
  neap_tensor weights; /* [N, count] of the experts of each row, the highest first */
  neap_tensor rows;    /* [N * count] of NEAP_I32: the row that each sorted row is; for neap_gather */
  neap_tensor places;  /* [N, count] of NEAP_I32: where each row of an expert stands among the sorted ones */
  neap_tensor ends;    /* [E] of NEAP_I32: where each expert's rows end */
} neap_routes;

/* Routes rows by their scores [N, E] of E experts. Gradients go through the weights. On failure all tensors
 * are -1. */
void neap_route(neap_builder *b, neap_tensor scores, neap_route_options options, neap_routes *routes);

/* A linear layer without bias for each expert: rows x [S, K], sorted by expert, times its part of `weight`
 * [E, outputs, K] or [E * outputs, K]; gives [S, outputs]. `ends`: those of neap_route. */
neap_tensor neap_expert_linear(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor ends);

/* Sums what the experts of each row gave, y [N * count, K], by their weights: [N, K]. */
neap_tensor neap_expert_sum(neap_builder *b, neap_tensor y, neap_tensor weights, neap_tensor places);

/* Counts the ids [N, T] of NEAP_I32 before the first negative one of each sequence, which is padding: [N] of
 * NEAP_I32. */
neap_tensor neap_sequence_lengths(neap_builder *b, neap_tensor ids);

/* Zeroes the rows t >= lengths[n] of each sequence of x [N, T, ...]; `lengths` [N] of NEAP_I32. */
neap_tensor neap_sequence_mask(neap_builder *b, neap_tensor x, neap_tensor lengths);

/* Adds a state, which one run leaves for the next: [dims...] of f32, bf16 or f16, zeros at first. It is a
 * variable of the session, which can be written to start again; a file of weights need not have it. */
neap_tensor neap_state(neap_builder *b, const char *name, neap_dtype dtype, int rank, const int64_t *dims);
/* Writes `rows` [N, T, ...] into the state [N, S, ...] of the same type, from row `position` ([1] of i32;
 * negative: 0) of its axis 1 on, after everything that reads the state has run. Rows that do not fit are left
 * out. Call it once per state, after the calls that read it. Gradients cannot read it, so such a graph only
 * predicts. */
void neap_store(neap_builder *b, neap_tensor state, neap_tensor rows, neap_tensor position);
/* Writes the state from the first row on, but only in neap_session_prepare: predictions read the state
 * without changing it, and skip nodes that only `rows` needs. */
void neap_prepare(neap_builder *b, neap_tensor state, neap_tensor rows);

/* Mean over the batch of -sum_c q_c log softmax(logits)_c, q = (1 - smoothing) onehot(label) + smoothing / C.
 * logits [N, C], labels [N] of NEAP_I32; or a label for each pixel: [N, C, H, W] and [N, H, W]. Tokens, whose
 * classes are the last axis, [N, T, C] and [N, T], must be reshaped to [N T, C] and [N T]. A label outside
 * the classes, such as -1 or 255, does not count. */
neap_tensor neap_softmax_cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                       float smoothing);
/* Cross-entropy that also ignores one of the classes. */
neap_tensor neap_softmax_cross_entropy_ignoring(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                                float smoothing, int32_t ignored);

/* Cross-entropy with weights of the classes, an input or parameter of f32 [C] without a gradient: the sum of
 * weight_c q_c log softmax(logits)_c over the sum of the labels' weights, as PyTorch's. An evaluation uses
 * weights of 1. */
neap_tensor neap_softmax_cross_entropy_weighted(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                                neap_tensor weights, float smoothing);

/* Cross-entropy with two labels per row: share_n of the loss by `labels` and 1 - share_n of that by `others`,
 * i32 and f32 of the labels' shape, shares in [0, 1]. A row counts if both labels are classes; an answer is
 * right if it equals that of `labels`. An evaluation uses `labels` alone. */
neap_tensor neap_softmax_cross_entropy_mixed(neap_builder *b, neap_tensor logits, neap_tensor labels,
                                             neap_tensor others, neap_tensor shares, float smoothing);

/* The loss of a linear layer's logits x weight^T (+ bias), in blocks of classes, so that all logits of a
 * large vocabulary are never in memory together: x [..., K], weight [C, K], bias [C] or negative, a label in
 * `labels` for each row of x. If rows come in parts, `labels` are those of all rows and `first` is the label
 * of the part's first row; if that is above 0, the loss of the earlier parts, `before`, is added. */
typedef struct neap_linear_cross_entropy_options {
  float smoothing;
  int64_t first;
  neap_tensor before;
  bool by_time; /* labels are [N, T], and rows are ordered by time: [T, N, K], or some of its times */
} neap_linear_cross_entropy_options;
neap_tensor neap_linear_cross_entropy(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias,
                                      neap_tensor labels, neap_linear_cross_entropy_options options);

/* Means over all elements of x and a target of the same shape, one call each: of (x - t)^2; of |x - t|; of |x
 * - t| - beta / 2 if |x - t| is at least beta, else of (x - t)^2 / (2 beta) (0: 1); of -t log s(x) - (1 - t)
 * log(1 - s(x)), s the sigmoid. */
neap_tensor neap_mse_loss(neap_builder *b, neap_tensor x, neap_tensor target);
neap_tensor neap_l1_loss(neap_builder *b, neap_tensor x, neap_tensor target);
neap_tensor neap_smooth_l1_loss(neap_builder *b, neap_tensor x, neap_tensor target, float beta);
neap_tensor neap_binary_cross_entropy(neap_builder *b, neap_tensor logits, neap_tensor target);

/* Names everything made from here on "scope.…", each kind counted from 1; NULL ends the scope, and the count
 * outside continues. Each scope may be used once: names of parameters and inputs are unique and have up to
 * 127 bytes. */
void neap_scope(neap_builder *b, const char *scope);

/* ---- The table of operators ---- */

bool neap_operator_at(int32_t index, neap_row *row);
/* An argument of an operator that is not a tensor. */
typedef struct neap_attribute {
  char name[32];
  const char *type; /* "integer", "real" or "flag" */
  int32_t count;    /* of an array; else 1 */
  double usual; /* the meaning of 0; if this is 0: itself, or as the operator's call in this header says */
} neap_attribute;
/* Gives attribute `index` of row `op` of neap_operator_at; returns false past the last. */
bool neap_attribute_at(int32_t op, int32_t index, neap_attribute *attribute);

#ifdef __cplusplus
}
#endif

#endif
