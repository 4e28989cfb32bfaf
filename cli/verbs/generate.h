/* The language model that makes text, for `neap generate` and `neap chat`. */
#ifndef NEAP_CLI_GENERATE_H
#define NEAP_CLI_GENERATE_H

#include "shared/options.h"

/* Reads the language model that the operand names: a run's, with its `*folder` and its settings in `run`; or
 * a model's file, with `*folder` NULL. Prepares the threads. Returns an exit status, after a message if it is
 * not EXIT_DONE. */
int read_language_model(const struct verb *verb, const struct arguments *given, const char **folder,
                        struct arguments *run);

/* Returns the options of generation: the run's model in the session that was asked for. */
neap_generate_options generation_options(const struct arguments *given, const char *folder,
                                         const neap_train_options *run);

#endif
