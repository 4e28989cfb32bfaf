/* A file with one JSON object, on one line, for each of some steps of a run: {"step": N, ...}. */
#ifndef NEAP_TRAIN_JSON_LINES_H
#define NEAP_TRAIN_JSON_LINES_H

#include <jansson.h>
#include <stdio.h>

#include "base/status.h"

struct json_lines {
  FILE *file;       /* NULL: none is kept, and the functions but the first do nothing */
  const char *path; /* borrowed */
};

/* Begins a new file. With a `resumed_step` of 0 or more, continues the existing one: cuts off lines of later
 * steps and an incomplete last one. NEAP_BAD_FORMAT, at a line without a step: the file is unchanged; `what`
 * names its lines in the message. `path` may be NULL. */
neap_status json_lines_open(const char *path, const char *what, int64_t resumed_step,
                            struct json_lines *lines);

/* Writes an object, which it frees, as a line, and gives it to the system; NULL: memory is out. Numbers have
 * 9 digits. */
neap_status json_lines_write(struct json_lines *lines, json_t *object);

/* Returns when all that was written is on the disk. */
neap_status json_lines_sync(struct json_lines *lines);

neap_status json_lines_close(struct json_lines *lines);

/* Calls `take` for each complete line of a file, with its step, until it fails. The object is borrowed.
 * NEAP_IO_FAILED: the file cannot be read. */
typedef neap_status json_line_taker(void *context, int64_t step, json_t *object);
neap_status json_lines_read(const char *path, const char *what, json_line_taker *take, void *context);

#endif
