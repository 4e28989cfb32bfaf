#include "train/learning_rate.h"

#include <math.h>

#include "base/elementary.h"
#include "settings/settings.h"

static const double pi = 3.14159265358979323846;

neap_status learning_rate_create(const neap_train_options *options, int64_t steps, int64_t epoch_steps,
                                 struct learning_rate *rate) {
  neap_train_options resolved = *options;
  TRY(settings_check_run(options));
  neap_train_options_resolve(&resolved);
  const double drop =
      options->step_epochs > 0 ? options->step_epochs * (double)epoch_steps : (double)steps / 3;
  RETURN_IF(options->schedule == NEAP_LR_EXPONENTIAL &&
                !(options->final_learning_rate > 0 && resolved.learning_rate > 0),
            NEAP_INVALID_ARGUMENT,
            "schedule exponential: needs a first and a last learning rate above 0 (got %g and %g); give "
            "`lr` and `final-lr`",
            resolved.learning_rate, options->final_learning_rate);
  *rate = (struct learning_rate){.kind = options->schedule,
                                 .base = fabs(setting_given_or(resolved.learning_rate, 0.1)),
                                 .steps = steps,
                                 .warmup_steps = options->warmup_steps > 0
                                                     ? (double)options->warmup_steps
                                                     : options->warmup_epochs * (double)epoch_steps,
                                 .last = options->final_learning_rate,
                                 .drop_steps = drop,
                                 .drop_factor = fabs(setting_given_or(options->step_factor, 0.1))};
  return NEAP_OK;
}

/* Returns 1 after the warm-up, falling to 0 at the run's end. */
static double cosine_at(const struct learning_rate *rate, int64_t step) {
  const double first = rate->old_cosine ? 0 : rate->warmup_steps;
  if ((double)step <= first) return 1;
  return 0.5 * (1 + cosine(pi * ((double)step - first) / ((double)rate->steps - first)));
}

double learning_rate_at(const struct learning_rate *rate, int64_t step) {
  double value = rate->base;
  if (rate->kind == NEAP_LR_STEP) value *= power(rate->drop_factor, floor((double)step / rate->drop_steps));
  if (rate->kind == NEAP_LR_INVERSE_SQRT && (double)step + 1 > rate->warmup_steps)
    value *= sqrt((rate->warmup_steps > 1 ? rate->warmup_steps : 1) / (double)(step + 1));
  if (rate->kind == NEAP_LR_COSINE) value *= cosine_at(rate, step);
  if (rate->kind == NEAP_LR_EXPONENTIAL && rate->steps > 1)
    value *= power(rate->last / rate->base, (double)step / (double)(rate->steps - 1));
  return (double)(step + 1) < rate->warmup_steps ? value * (double)(step + 1) / rate->warmup_steps : value;
}

bool learning_rate_depends_on_length(const neap_train_options *options) {
  return options->schedule == NEAP_LR_COSINE || options->schedule == NEAP_LR_EXPONENTIAL ||
         (options->schedule == NEAP_LR_STEP && options->step_epochs <= 0);
}
