/* The learning rate as a function of the step. */
#ifndef NEAP_TRAIN_LEARNING_RATE_H
#define NEAP_TRAIN_LEARNING_RATE_H

#include "base/status.h"

struct learning_rate {
  neap_schedule_kind kind;
  double base;
  double last;         /* NEAP_LR_EXPONENTIAL: of the last step */
  int64_t steps;       /* of the complete run */
  double warmup_steps; /* 0: none */
  double drop_steps;   /* NEAP_LR_STEP: multiplied by drop_factor every this many steps */
  double drop_factor;
  bool old_cosine; /* of a run that Neap 0.1 began: counted from step 0, and multiplied by the warm-up */
};

/* Makes the schedule of a run of `steps` steps, `epoch_steps` in an epoch. Fails on negative or non-finite
 * numbers. */
neap_status learning_rate_create(const neap_train_options *options, int64_t steps, int64_t epoch_steps,
                                 struct learning_rate *rate);

/* Returns the rate of a step, counted from 0:
 *     constant  base
 *     step      base * drop_factor ^ floor(step / drop_steps)
 *     exponential  base * (last / base) ^ (step / (steps - 1))
 *     cosine    base * (1 + cos(pi * max(0, step - warmup_steps) / (steps - warmup_steps))) / 2
 * times min(1, (step + 1) / warmup_steps): the warm-up's last step has the base itself. Loshchilov and Hutter
 * 2017, equation 5, without restart; gradual warm-up: Goyal et al. 2017, section 2.2. */
double learning_rate_at(const struct learning_rate *rate, int64_t step);

/* Returns true if the rates of the first steps depend on the length of the run. */
bool learning_rate_depends_on_length(const neap_train_options *options);

#endif
