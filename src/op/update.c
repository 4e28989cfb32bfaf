/* Optimizers: updates of a parameter and its states. */
#include "op/op.h"

static const struct attribute_row attributes[] = {
    ATTRIBUTE(update.momentum, REAL), ATTRIBUTE(update.weight_decay, REAL), ATTRIBUTE(update.beta1, REAL),
    ATTRIBUTE(update.beta2, REAL),    ATTRIBUTE(update.epsilon, REAL),      ATTRIBUTE(update.nesterov, FLAG),
};

const struct op_row op_row_sgd = {"SGD", "update: momentum, Nesterov, weight decay",
                                  ROW_ATTRIBUTES(attributes)};
const struct op_row op_row_adamw = {"AdamW", "update: Adam with decoupled weight decay",
                                    ROW_ATTRIBUTES(attributes)};
