/* Tables of text: records of fields between commas, semicolons or tabs, some in quotes (RFC 4180). */
#ifndef NEAP_DATA_CSV_H
#define NEAP_DATA_CSV_H

#include <stdint.h>
#include <stdio.h>

#include "base/vector.h"

struct csv {
  const char *path; /* borrowed */
  FILE *file;
  char separator;        /* by the first line */
  int64_t line;          /* where the record begins, from 1 */
  int64_t next_line;     /* where the next one does */
  VECTOR(char) text;     /* of the fields, each with a 0 at its end */
  VECTOR(size_t) fields; /* where they begin */
};

/* Opens a file. csv_close closes it, whatever the status. */
neap_status csv_open(const char *path, struct csv *csv);
void csv_close(struct csv *csv);

/* Reads the next record that is no blank line; *any false: the file has ended. Messages name file and line.
 * NEAP_BAD_FORMAT: a quote has no end, or something follows it; a byte is 0 or not UTF-8.
 * NEAP_TOO_LARGE: the record has more than 64 MiB. */
neap_status csv_next(struct csv *csv, bool *any);

static inline const char *csv_field(const struct csv *csv, size_t i) {
  return csv->text.data + csv->fields.data[i];
}

/* Begins anew with the first record. */
neap_status csv_rewind(struct csv *csv);

#endif
