/* Optimizers: updates of a parameter and its states. */
#include "op/op.h"

static const struct attribute_row sgd_attributes[] = {
    ATTRIBUTE(update.rate, REAL),     ATTRIBUTE(update.weight_decay, REAL), ATTRIBUTE(update.origin, REAL),
    ATTRIBUTE(update.momentum, REAL), ATTRIBUTE(update.nesterov, FLAG),
};
static const struct attribute_row adam_attributes[] = {
    ATTRIBUTE(update.rate, REAL),  ATTRIBUTE(update.weight_decay, REAL), ATTRIBUTE(update.origin, REAL),
    ATTRIBUTE(update.beta1, REAL), ATTRIBUTE(update.beta2, REAL),        ATTRIBUTE(update.epsilon, REAL),
};
static const struct attribute_row rmsprop_attributes[] = {
    ATTRIBUTE(update.rate, REAL),     ATTRIBUTE(update.weight_decay, REAL), ATTRIBUTE(update.origin, REAL),
    ATTRIBUTE(update.momentum, REAL), ATTRIBUTE(update.beta2, REAL),        ATTRIBUTE(update.epsilon, REAL),
};
static const struct attribute_row lion_attributes[] = {
    ATTRIBUTE(update.rate, REAL),  ATTRIBUTE(update.weight_decay, REAL), ATTRIBUTE(update.origin, REAL),
    ATTRIBUTE(update.beta1, REAL), ATTRIBUTE(update.beta2, REAL),
};

/* The inputs for the values of all sparse parameters follow its own (UPDATE_SLOTS): indices, then each
 * parameter's offset and positions. */
#define UPDATE_TAKES                                                                                         \
  .takes = {[UPDATE_SLOTS] = TYPE_U16, [UPDATE_SLOTS + 1] = TYPE_I32, TYPES_POSITIONS, TYPE_I32}

const struct op_row op_row_sgd = {"SGD",
                                  "update: momentum, Nesterov, weight decay",
                                  ROW_ATTRIBUTES(sgd_attributes),
                                  .any_place = true,
                                  UPDATE_TAKES,
                                  .split = {15, 0, 0},
                                  .across = ACROSS_SHARE};
const struct op_row op_row_adamw = {"AdamW",
                                    "update: Adam with decoupled weight decay",
                                    ROW_ATTRIBUTES(adam_attributes),
                                    .any_place = true,
                                    UPDATE_TAKES,
                                    .split = {15, 0, 0},
                                    .across = ACROSS_SHARE};
const struct op_row op_row_adam = {"Adam",
                                   "update: moments of the gradient, weight decay in it",
                                   ROW_ATTRIBUTES(adam_attributes),
                                   .any_place = true,
                                   UPDATE_TAKES,
                                   .split = {15, 0, 0},
                                   .across = ACROSS_SHARE};
const struct op_row op_row_rmsprop = {"RMSprop",
                                      "update: gradient over its root mean square, momentum",
                                      ROW_ATTRIBUTES(rmsprop_attributes),
                                      .any_place = true,
                                      UPDATE_TAKES,
                                      .split = {15, 0, 0},
                                      .across = ACROSS_SHARE};
const struct op_row op_row_lion = {"Lion",
                                   "update: sign of an interpolated momentum",
                                   ROW_ATTRIBUTES(lion_attributes),
                                   .any_place = true,
                                   UPDATE_TAKES,
                                   .split = {15, 0, 0},
                                   .across = ACROSS_SHARE};

/* ---- A step of several micro-batches ---- */

const struct op_row op_row_accumulate = {"Accumulate",       "update: a gradient added to a sum",
                                         .any_place = true,  UPDATE_TAKES,
                                         .split = {7, 0, 0}, .across = ACROSS_SUM};
const struct op_row op_row_clear = {"Clear",
                                    "update: a sum that begins with 0",
                                    .any_place = true,
                                    UPDATE_TAKES,
                                    .split = {1, 0, 0},
                                    .across = ACROSS_SHARE};
const struct op_row op_row_momentum_begin = {"MomentumBegin",
                                             "update: momentum and weight decay, before gradients",
                                             ROW_ATTRIBUTES(sgd_attributes),
                                             .any_place = true,
                                             UPDATE_TAKES,
                                             .split = {3, 0, 0},
                                             .across = ACROSS_SHARE};
const struct op_row op_row_momentum_end = {"MomentumEnd",
                                           "update: weights by their momentum",
                                           ROW_ATTRIBUTES(sgd_attributes),
                                           .any_place = true,
                                           UPDATE_TAKES,
                                           .split = {3, 0, 0},
                                           .across = ACROSS_SHARE};

/* ---- Clipping ---- */

static const struct attribute_row clip_attributes[] = {ATTRIBUTE(scalar.a, REAL), ATTRIBUTE(scalar.b, REAL)};

const struct op_row op_row_clip_gradient = {"ClipGradient",
                                            "a gradient cut to a size, times a number",
                                            .output_count = 1,
                                            ROW_INPLACE(inplace_first),
                                            ROW_ATTRIBUTES(clip_attributes),
                                            .any_place = true,
                                            .split = {1, 1, 0},
                                            .across = ACROSS_SHARE};
const struct op_row op_row_squared_norm = {
    "SquaredNorm",     "sum of squares",   .output_count = 1,     ROW_ATTRIBUTES(clip_attributes),
    .any_place = true, .split = {1, 0, 1}, .across = ACROSS_SHARE};
const struct op_row op_row_clip_coefficient = {
    "ClipCoefficient",          "what scales gradients down to a norm", .output_count = 1,
    ROW_INPLACE(inplace_first), ROW_ATTRIBUTES(clip_attributes),        .any_place = true,
    .takes = {TYPE_F32}};
