/* Messages of failures, and the exit statuses that belong to them. */
#ifndef NEAP_CLI_FAILURE_H
#define NEAP_CLI_FAILURE_H

#include "shared/verb.h"

/* Returns the library's last message, in which `name` stands for a setting, with options instead: "--name".
 * Valid until the next call. */
const char *library_message(void);

/* Returns the exit status of the command. */
int exit_status_of(neap_status status);

/* Prints messages about wrong usage from now on as a JSON object, too. */
void tell_usage_as_json(void);

/* Prints the mistake and where help is; `verb` may be NULL. Returns EXIT_USAGE. */
int report_usage(const struct verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the error message to "out of memory" and returns NEAP_OUT_OF_MEMORY. */
neap_status no_memory(void);

/* Prints the library's last failure. Returns the exit status that belongs to it. */
int report_failure(const struct verb *verb, neap_status status);

#endif
