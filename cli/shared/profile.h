/* neap plan --profile */
#ifndef NEAP_CLI_PROFILE_H
#define NEAP_CLI_PROFILE_H

#include "shared/techniques.h"

/* Prints the memory of the step with each technique, alone, in pairs and together. Returns an exit status. */
int profile_techniques(const struct verb *verb, const struct techniques *techniques, bool json);

#endif
