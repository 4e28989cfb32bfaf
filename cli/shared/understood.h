/* Reports how data were read: in brief for people, complete for --json. */
#ifndef NEAP_CLI_UNDERSTOOD_H
#define NEAP_CLI_UNDERSTOOD_H

#include <jansson.h>
#include <stdio.h>

#include "neap.h"

/* Prints a line for each fate, with the first objects and reasons. */
void print_understood(FILE *f, const neap_understood *rows, int64_t count);

/* Returns all rows; NULL: memory ran out. */
json_t *understood_json(const neap_understood *rows, int64_t count);

#endif
