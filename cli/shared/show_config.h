/* neap train --show-config */
#ifndef NEAP_CLI_SHOW_CONFIG_H
#define NEAP_CLI_SHOW_CONFIG_H

#include "shared/options.h"

/* Prints the settings of complete_run as a file for --config, on standard output. Returns an exit status. */
int show_config(const struct verb *verb, const struct arguments *a, int processes);

#endif
