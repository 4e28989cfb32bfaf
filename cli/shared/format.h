/* Bytes, times and results as text and as JSON. */
#ifndef NEAP_CLI_FORMAT_H
#define NEAP_CLI_FORMAT_H

#include <jansson.h>
#include <stdio.h>

#include "neap.h"
#include "shared/exit_status.h"

struct text {
  char text[40];
};
struct text bytes_text(uint64_t bytes);                   /* "96.0 MiB" */
struct text duration_text(double seconds);                /* "1 min 20 s" */
struct text rate_text(double rate, const char *unit);     /* "123.4 GB/s" of 1.234e11 and "B/s" */
struct text percent_text(double fraction);                /* "12.3 %" */
double overhead_of(double cost, double base_cost);        /* 0.123; never below 0 */
struct text overhead_text(double cost, double base_cost); /* "+12.3 %" */

/* Prints "a step stores 1 MiB ..."; nothing if the plan moves nothing. */
void print_transfers(const neap_check_result *check);

/* A name from a file, as a terminal may show it: without control characters, and cut if it is too long. */
struct name {
  char text[160];
};
struct name name_text(const char *name);

/* The names of the kinds of memory. */
extern const char *const kind_names[NEAP_KIND_COUNT];

/* Returns the seconds of a clock that only goes forward. */
double seconds_now(void);

/* Returns the columns of the terminal; `otherwise` if the file is not a terminal. */
int line_width(FILE *file, int otherwise);

/* Return whether a batch has sequences, whose labels are tokens or one class each; or images. */
bool of_sequences(neap_task task);
bool of_images(neap_task task);

/* Returns a number, or null for one that JSON does not have. */
json_t *number_json(double value);

/* Returns a string. Bytes that are no UTF-8 become U+FFFD. NULL: out of memory. */
json_t *text_json(const char *text, size_t length);

/* Adds "checkpoint", "data" (each may be NULL) and "process_peak_bytes", the fields that all verbs which run
 * a model have, if the object lacks them. Returns the object, which may be NULL. */
json_t *add_run(json_t *object, const char *checkpoint, const char *data);

/* Prints the object on standard output, in one line, and frees it. NULL (out of memory) is a failure. Returns
 * an exit status. */
int print_json(json_t *object);

/* Returns whether a path ends so: ".svg", the text behind its last point with that point. */
bool has_ending(const char *path, const char *ending);

/* Writes a text file whole or not at all. Returns EXIT_FAILED after a message. */
int write_text_file(const char *path, const char *text, size_t length);

#endif
