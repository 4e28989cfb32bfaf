/* A text that a verb makes of the command itself. */
#ifndef NEAP_CLI_MADE_TEXT_H
#define NEAP_CLI_MADE_TEXT_H

#include <stdio.h>

#include "shared/verb.h"

/* Prints the text that `print` writes to `*out`: as it is, or as the field "text" of a JSON object. Returns
 * an exit status. */
int print_made(const struct verb *verb, void (*print)(void), FILE **out, bool json);

#endif
