/* Losses of two tensors of one shape: the mean of a scalar expression over all elements. Define
 *
 *     PAIR_LOSS(NAME, id, "Name", "summary", value, slope, target_slope)
 *
 * and include this. `value` is computed from the prediction x, the target t and the attribute beta; `slope`
 * and `target_slope` are its derivatives by x and by t. The expressions are compiled as those of
 * elementwise_list.h. */

PAIR_LOSS(MSE_LOSS, mse_loss, "MeanSquaredError", "mean of (x - t)^2", (x - t) * (x - t), 2 * (x - t),
          -2 * (x - t))
PAIR_LOSS(L1_LOSS, l1_loss, "MeanAbsoluteError", "mean of |x - t|", ABS(x - t), SIGN(x - t), -SIGN(x - t))
PAIR_LOSS(SMOOTH_L1_LOSS, smooth_l1_loss, "SmoothL1", "|x - t|, a parabola where it is below beta",
          ABS(x - t) < beta ? HALF * (x - t) * (x - t) / beta : ABS(x - t) - HALF * beta,
          ABS(x - t) >= beta ? SIGN(x - t) : (x - t) / beta,
          ABS(x - t) >= beta ? -SIGN(x - t) : -(x - t) / beta)
PAIR_LOSS(BINARY_CROSS_ENTROPY, binary_cross_entropy, "BinaryCrossEntropy",
          "-t log s(x) - (1 - t) log(1 - s(x)) of logits", (x > 0 ? x : 0) - x * t + LOG(1 + EXP(-ABS(x))),
          SIGMOID(x) - t, -x)
#undef PAIR_LOSS
