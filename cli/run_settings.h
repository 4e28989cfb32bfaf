/* The settings of a run: of `neap train`, and of the run whose checkpoint another verb goes on from. */
#ifndef NEAP_CLI_RUN_SETTINGS_H
#define NEAP_CLI_RUN_SETTINGS_H

#include "cli.h"

/* Completes the arguments of `neap train`: takes over the settings of the run that is resumed, checks all and
 * fills in what they leave open. An exit status, after a message where it is not EXIT_DONE. */
int complete_run(const struct verb *verb, struct arguments *a);

/* The settings of the run whose checkpoint is in a folder, as `neap train --resume FOLDER` has them. What was
 * given of those that `neap train` takes (NULL: nothing) counts before the run's. */
int read_run(const struct verb *verb, const char *folder, const struct arguments *given,
             struct arguments *run);

/* Sets what `neap finetune` has where nothing is said: adapters, AdamW, its learning rate. `full`: without
 * adapters. An exit status, after a message where it is not EXIT_DONE. */
int settle_finetuning(const struct verb *verb, struct arguments *a, bool full);

/* The language model that the operand names (generate.c): `*folder` of a run, whose settings are in `run`; or
 * a model's file, and `*folder` NULL. Prepares the threads. An exit status, after a message where it is not
 * EXIT_DONE. */
int read_language_model(const struct verb *verb, const struct arguments *given, const char **folder,
                        struct arguments *run);

/* What to make text with: the model of a run in the session that was asked for. */
neap_generate_options generation_options(const struct arguments *given, const char *folder,
                                         const neap_train_options *run);

/* Prints the settings of complete_run as a file for --config, on standard output. An exit status. */
int show_config(const struct verb *verb, const struct arguments *a, int processes);

/* The settings as a text that a run can be gone on with; the caller frees it. NULL after a message. */
char *run_command(const struct arguments *a);

#endif
