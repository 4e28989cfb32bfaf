/* What `neap train` was told. */
#ifndef NEAP_CLI_TRAIN_SETTINGS_H
#define NEAP_CLI_TRAIN_SETTINGS_H

#include "cli.h"

enum { TRAIN_OPTION_LIMIT = 64 };

struct train_settings {
  const char *model, *data, *initial, *out, *resume, *metrics, *planner, *plan, *save_plan, *allow,
      *sparse_layers;
  struct budget budget, process_budget;
  int64_t batch, micro_batch, image[3], classes, length, window, warmup_steps, steps, epochs, seed,
      checkpoint_steps, keep_epochs, rewire_every;
  double learning_rate, warmup, step_epochs, step_factor, momentum, weight_decay, beta1, beta2, epsilon,
      clip_value, clip_norm, smoothing, dropout, time_limit, loss_scale, sparse;
  int schedule, optimizer, shuffle, augment, evaluate, convolution, backend, costs, variant, precision,
      threads;
  int prefer;
  unsigned allowed; /* of `allow` */
  bool nesterov, master, save_sparse, force, json;
};

/* Settings and what they point to. */
struct train_arguments {
  struct train_settings settings;
  const char *texts[TRAIN_OPTION_LIMIT];                        /* the options as they were given, by row */
  char *stored[TRAIN_OPTION_LIMIT], *owned[TRAIN_OPTION_LIMIT]; /* owned: may be set by the caller */
  int stored_count;
};

/* Reads arguments over the options of the run that is resumed, if one is, checks them and fills in what they
 * leave open. An exit status; free with free_train_settings in any case. */
int read_train_settings(const struct verb *verb, int count, char **arguments, struct train_arguments *given);

/* The same of the run whose checkpoint is in a folder, for a verb that goes on from it: what was given to the
 * verb's options that `neap train` has, too, counts before the run's. texts: by row of the verb's options;
 * NULL: nothing was given. */
int read_run_settings(const struct verb *verb, const char *folder, const char *const *texts,
                      struct train_arguments *run);
void free_train_settings(struct train_arguments *given);

/* The options as a text that a run can be gone on with; the caller frees it. NULL after a message. */
char *train_command(const char *const *texts);

/* Without what is only known where the run is begun: command, progress and its context. */
neap_train_options train_library_options(const struct train_settings *settings);

#endif
