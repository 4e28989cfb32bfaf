/* The settings of a run: of `neap train`, and of the run whose checkpoint another verb takes. Functions
 * return an exit status, after a message if it is not EXIT_DONE. */
#ifndef NEAP_CLI_RUN_SETTINGS_H
#define NEAP_CLI_RUN_SETTINGS_H

#include "shared/options.h"

/* Completes the arguments of `neap train`: takes over the settings of the run that is resumed, checks all and
 * fills in those that are open. */
int complete_run(const struct verb *verb, struct arguments *a);

/* Reads the settings of the run whose checkpoint is in a folder, as `neap train --resume FOLDER` has them.
 * Settings of `neap train` that `given` (NULL: none) has take their place. */
int read_run(const struct verb *verb, const char *folder, const struct arguments *given,
             struct arguments *run);

/* Sets the defaults of `neap finetune`: adapters, AdamW, its learning rate. `full`: without adapters. */
int settle_finetuning(const struct verb *verb, struct arguments *a, bool full);

/* Returns the settings as a text with which the run can be resumed; the caller frees it. NULL after a
 * message. */
char *run_command(const struct arguments *a);

#endif
