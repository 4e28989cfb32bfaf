/* The one list of operators, by family. Define OP(NAME, id) and include this: the enum, the declarations and
 * the tables of the graph side and of every backend are made from it. The enum has OP_NAME; `id` names the
 * row and the kernels. A gradient operator is named after its forward one. */

/* convolution.c */
OP(CONV, conv)                                   /* x, w, [addend], [bias] -> y */
OP(CONV_BACKWARD_DATA, conv_backward_data)       /* w, dy, [addend] -> dx */
OP(CONV_BACKWARD_WEIGHTS, conv_backward_weights) /* x, dy -> dw */
OP(CONV_TRANSPOSED, conv_transposed)             /* x, w, [bias] -> y */
/* sequence_convolution.c */
OP(SEQUENCE_CONV, sequence_conv)                   /* x, w -> y */
OP(SEQUENCE_CONV_BACKWARD, sequence_conv_backward) /* x, w, dy -> dx, [dw] */
/* matmul.c */
OP(LINEAR, linear)                                   /* x, w, [bias] -> y */
OP(LINEAR_BACKWARD_DATA, linear_backward_data)       /* w, dy -> dx */
OP(LINEAR_BACKWARD_WEIGHTS, linear_backward_weights) /* x, dy, [addend] -> dw */
OP(BIAS_BACKWARD, bias_backward)                     /* dy -> dbias */
OP(MATMUL, matmul)                                   /* a, b -> y */
/* triangular.c */
OP(CHOLESKY, cholesky)                                   /* x -> l */
OP(CHOLESKY_BACKWARD, cholesky_backward)                 /* l, dl -> dx */
OP(TRIANGULAR_SOLVE, triangular_solve)                   /* l, b -> y */
OP(TRIANGULAR_SOLVE_BACKWARD, triangular_solve_backward) /* y, db, [addend] -> dl */
/* expert.c */
OP(ROUTE, route)                                                   /* scores -> weights, rows, places, ends */
OP(ROUTE_BACKWARD, route_backward)                                 /* scores, dweights -> dscores */
OP(EXPERT_LINEAR, expert_linear)                                   /* x, w, ends -> y */
OP(EXPERT_LINEAR_BACKWARD_DATA, expert_linear_backward_data)       /* w, dy, ends -> dx */
OP(EXPERT_LINEAR_BACKWARD_WEIGHTS, expert_linear_backward_weights) /* x, dy, ends -> dw */
OP(EXPERT_SUM, expert_sum)                                         /* y, weights, places -> sums */
OP(EXPERT_SUM_BACKWARD, expert_sum_backward) /* y, weights, places, dsums -> dy, dweights */
/* recurrent.c: of the times of a sequence [T, N, K] */
OP(LSTM, lstm)                   /* gates of x, w, [h0], [c0] -> y, last c, gates */
OP(LSTM_BACKWARD, lstm_backward) /* gates, w, [c0], [dy], [dlast c] -> dgates, [dh0], [dc0] */
OP(GRU, gru)                     /* gates of x, w, [bias], [h0] -> y, gates */
OP(GRU_BACKWARD, gru_backward)   /* gates, w, y, [h0], dy -> dgates of x, dgates of h, [dh0] */
OP(RECURRENT_BACKWARD_WEIGHTS, recurrent_backward_weights) /* y, [h0], dgates, [addend] -> dw */
/* normalise.c */
OP(BATCH_NORM_STATISTICS, batch_norm_statistics) /* x -> mean, variance */
OP(BATCH_NORM, batch_norm)                       /* x, mean, variance, gamma, beta, [addend] -> y */
OP(BATCH_NORM_BACKWARD,
   batch_norm_backward) /* x, dy, mean, variance, gamma, beta, [addend] -> dx, dgamma, dbeta */
OP(RUNNING_STATISTICS,
   running_statistics) /* mean, variance, running mean, running variance; updates these two */
OP(LOCAL_RESPONSE_NORM, local_response_norm)                   /* x -> y */
OP(LOCAL_RESPONSE_NORM_BACKWARD, local_response_norm_backward) /* x, dy -> dx */
OP(ROW_NORM, row_norm)                   /* x, [gamma], [beta] -> y, mean, 1 / deviation */
OP(ROW_NORM_BACKWARD, row_norm_backward) /* x, dy, mean, 1 / deviation, [gamma] -> dx, [dgamma, dbeta] */
/* pooling.c */
OP(MAX_POOL, max_pool)                                             /* x -> y, index */
OP(MAX_POOL_BACKWARD, max_pool_backward)                           /* index, dy -> dx */
OP(AVERAGE_POOL, average_pool)                                     /* x -> y */
OP(AVERAGE_POOL_BACKWARD, average_pool_backward)                   /* dy -> dx */
OP(GLOBAL_AVERAGE_POOL, global_average_pool)                       /* x -> y */
OP(GLOBAL_AVERAGE_POOL_BACKWARD, global_average_pool_backward)     /* dy -> dx */
OP(ADAPTIVE_AVERAGE_POOL, adaptive_average_pool)                   /* x -> y */
OP(ADAPTIVE_AVERAGE_POOL_BACKWARD, adaptive_average_pool_backward) /* dy -> dx */
/* space.c */
OP(CROP, crop)                       /* x -> y */
OP(CROP_BACKWARD, crop_backward)     /* dy, [addend] -> dx */
OP(RESIZE, resize)                   /* x -> y */
OP(RESIZE_BACKWARD, resize_backward) /* dy -> dx */
/* pixels.c */
OP(PIXELS, pixels) /* bytes, windows -> y: normalised by channel; made by a rewrite */
/* elementwise.c */
#define UNARY(NAME, id, ...)  OP(NAME, id) OP(NAME##_BACKWARD, id##_backward) /* x -> y; x or y, dy -> dx */
#define BINARY(NAME, id, ...) OP(NAME, id)                                    /* x, y -> z */
#include "op/elementwise_list.h"
OP(RELU_MASK, relu_mask)                   /* x -> y, mask; made by a rewrite */
OP(RELU_MASK_BACKWARD, relu_mask_backward) /* mask, dy -> dx */
OP(WHERE, where)                           /* mask, [x], [y] -> x where the mask is set, else y */
OP(CAST, cast)                             /* x -> the same elements in another type */
OP(STOP_GRADIENT, stop_gradient)           /* x -> x, through which no gradient flows back */
OP(DROPOUT, dropout)                       /* x -> y; its own gradient */
/* gated.c */
#define GATED(NAME, id, ...) OP(NAME, id) OP(NAME##_BACKWARD, id##_backward) /* x -> y; x, dy -> dx */
#include "op/gated_list.h"
/* shape.c */
OP(CONCAT, concat)                   /* parts... -> y */
OP(SLICE, slice)                     /* x, [addend] -> some of x; also concat's gradient */
OP(SLICE_BACKWARD, slice_backward)   /* dy, [addend] -> dx: outside the slice the addend, or 0 */
OP(TAKE, take)                       /* x -> y: elements of an axis at regular places, or a border's */
OP(TAKE_BACKWARD, take_backward)     /* dy -> dx: sums over the places where an element was read */
OP(TRANSPOSE, transpose)             /* x -> y: axes in another order; its own gradient */
OP(EXPAND, expand)                   /* x -> y: axes of 1 made longer, times a number */
OP(GATHER, gather)                   /* table, ids -> its rows */
OP(GATHER_BACKWARD, gather_backward) /* ids, dy, [addend] -> dtable */
OP(FILL, fill)                       /* -> y: one number everywhere */
OP(LOSS_SHARE, loss_share)           /* -> [1]: the micro-batch's share of the loss */
OP(REORDER, reorder)                 /* x -> x in another memory layout; made in lowering */
/* reduce.c */
OP(SUM, sum)                           /* x -> y: sums over axes, times a number */
OP(SOFTMAX, softmax)                   /* x -> y */
OP(SOFTMAX_BACKWARD, softmax_backward) /* y, dy -> dx */
/* attention.c */
OP(ATTENTION, attention) /* q, [k], [v], [lengths], [places] -> y, log of the sum of exponentials */
OP(ATTENTION_BACKWARD,
   attention_backward) /* q, [k], [v], [lengths], y, log sum, dy, [places] -> dq, [dk, dv] */
OP(ROTARY, rotary)     /* x, [position] -> y: pairs turned by their position; its own gradient */
/* sequence.c */
OP(POSITIONS, positions)               /* -> y: sines and cosines of a row's position */
OP(SEQUENCE_MASK, sequence_mask)       /* x, lengths -> y: rows beyond a length are 0; its own gradient */
OP(SEQUENCE_LENGTHS, sequence_lengths) /* ids -> how many come before the first negative one */
/* state.c */
OP(CACHE_WRITE, cache_write) /* cache, rows, [position]; updates the cache: some of its rows */
/* loss.c */
#define PAIR_LOSS(NAME, id, ...)                                                                             \
  OP(NAME, id) OP(NAME##_BACKWARD, id##_backward) /* x, target -> loss; x, target, [dloss] -> dx */
#include "op/loss_list.h"
OP(SOFTMAX_CROSS_ENTROPY,
   softmax_cross_entropy) /* logits, labels, [class weights], [other labels], [shares] -> loss, correct */
OP(SOFTMAX_CROSS_ENTROPY_BACKWARD,
   softmax_cross_entropy_backward) /* logits, labels, [dloss], [class weights], [other labels], [shares] ->
                                      dlogits */
OP(LINEAR_CROSS_ENTROPY,
   linear_cross_entropy) /* x, w, labels, [bias], [loss], [correct] -> loss, correct, log-sum by row */
OP(LINEAR_CROSS_ENTROPY_BACKWARD,
   linear_cross_entropy_backward) /* x, w, labels, log-sum, [bias], [dloss] -> dx, dw, [dbias] */
/* update.c */
#define UPDATE(NAME, id, ...) OP(NAME, id) /* w, dw, [state], [state]; updates w and its states */
#define MATRIX_UPDATE(NAME, id, ...)                                                                         \
  OP(NAME, id) /* w, dw, four states or fewer; updates w and its states                                      \
                */
#include "op/update_list.h"
OP(ACCUMULATE, accumulate)             /* w, dw, sum; updates sum: what micro-batches add up to */
OP(CLEAR, clear)                       /* sum; updates it: 0 */
OP(MOMENTUM_BEGIN, momentum_begin)     /* w, m; updates m: what SGD begins a step of micro-batches with */
OP(MOMENTUM_END, momentum_end)         /* w, m; updates w: the end of such a step */
OP(SQUARED_NORM, squared_norm)         /* dw -> [1] */
OP(CLIP_COEFFICIENT, clip_coefficient) /* sum of squared norms [1] -> [1] */
OP(CLIP_GRADIENT, clip_gradient)       /* dw, [coefficient] -> dw */
/* quantised.c: made by rewrites */
OP(DEQUANTISE, dequantise) /* a tensor in a quantised type -> its numbers */
OP(COMPRESS, compress)     /* x -> x in blocks of few bits, rounded at random */
/* perturb.c */
OP(PERTURB, perturb) /* a parameter -> the same with noise; made by a rewrite */
/* fetch.c: for parameters on disk; made by a rewrite */
OP(FETCH, fetch)           /* w -> the same in memory */
OP(FETCH_ROWS, fetch_rows) /* table, ids -> its rows */
/* shares.c: for parameters of which each rank holds a share; made by a rewrite */
OP(ALL_GATHER, all_gather) /* w -> all of it */
/* fetch.c: for trained parameters in the session's file on disk */
OP(LOAD, load) /* w -> the same in memory */
/* fetch.c: for values that are dropped and come back from that file; lowering makes them */
OP(STORE, store)     /* what a node made -> a value of no bytes */
OP(RESTORE, restore) /* that value -> what the node made */
/* kept_rows.c: made by a rewrite */
OP(KEPT_ROWS, kept_rows)       /* -> numbers of the rows that a backward pass reads, drawn at each step */
OP(GATHER_ROWS, gather_rows)   /* x, rows -> these rows of each sequence */
OP(SCATTER_ROWS, scatter_rows) /* x, rows, [addend] -> the rows in their places, elsewhere the addend, or 0 */
/* sparse.c */
OP(DENSIFY, densify)                     /* pool, offset, positions, indices -> w */
OP(ACCUMULATE_SPARSE, accumulate_sparse) /* pool, dw, its sums, offset, positions, indices; updates offset */
