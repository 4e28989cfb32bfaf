/* Reads tables of text: records of fields separated by commas, semicolons or tabs, some in quotes (RFC
 * 4180). Blanks around quotes are no part of a field. */
#ifndef NEAP_DATA_CSV_H
#define NEAP_DATA_CSV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/region.h"
#include "base/vector.h"

struct csv {
  const char *path; /* borrowed */
  FILE *file;
  char separator;    /* found in the first line */
  bool tied;         /* commas and semicolons are equally frequent in the first two lines */
  bool exact;        /* blanks around fields are part of them, as runs from before they were cut have them */
  int64_t line;      /* line on which the record begins, from 1 */
  int64_t next_line; /* line on which the next one begins */
  VECTOR(char) text; /* of the fields, each ended by a 0 */
  VECTOR(size_t) fields; /* their offsets in `text` */
};

/* Decides between commas and semicolons where they are tied: by numbers with decimal commas. NEAP_BAD_FORMAT:
 * by nothing. */
neap_status csv_settle(struct csv *csv, bool decimal_comma);

/* Opens a file. Close it with csv_close, whatever the status. */
neap_status csv_open(const char *path, struct csv *csv);
void csv_close(struct csv *csv);

/* Reads the next record, skipping blank lines; *any is false at the end of the file. Messages name file and
 * line. NEAP_BAD_FORMAT: a quote is not closed or is followed by text, or a byte is 0 or not UTF-8.
 * NEAP_TOO_LARGE: the record has more than 64 MiB. */
neap_status csv_next(struct csv *csv, bool *any);

/* Fails if the record that was read last has another number of fields than the header. */
neap_status csv_check_fields(const struct csv *csv, size_t header);

static inline const char *csv_field(const struct csv *csv, size_t i) {
  return csv->text.data + csv->fields.data[i];
}

/* Returns a field without the blanks (spaces, tabs, no-break spaces) around it, unless fields are exact. */
const char *csv_cell(const struct csv *csv, size_t i);

/* A cell of a header, and its field. */
struct csv_name {
  const char *name;
  size_t field;
};

/* Gives the cells of the record that was read last, the header, sorted by name; they live until the next
 * record is read, the array as long as the region. NEAP_BAD_FORMAT: two are equal. */
neap_status csv_sort_names(const struct csv *csv, struct region *region, struct csv_name **names);

/* Returns the field of a name among `count` sorted ones; `count`: none has it. */
size_t csv_find_name(const struct csv_name *names, size_t count, const char *name);

/* Cuts the blanks at both ends of a text, in place; returns its beginning. */
char *csv_cut_blanks(char *text);

/* Goes back to the first record. */
neap_status csv_rewind(struct csv *csv);

#endif
