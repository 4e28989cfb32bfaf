/* Buffers as CSV: id,lower,upper,size in; the same with offset out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/vector.h"

enum { ID, LOWER, UPPER, SIZE, OFFSET, COLUMNS, LINE_LIMIT = 4096, FIELD_LIMIT = 16 };
static const char *const column_names[COLUMNS] = {"id", "lower", "upper", "size", "offset"};

/* Cuts a line at its commas, in place. */
static int split(char *line, char **fields) {
  int count = 0;
  line[strcspn(line, "\r\n")] = '\0';
  for (char *at = line; at != NULL && count < FIELD_LIMIT; count++) {
    fields[count] = at;
    at = strchr(at, ',');
    if (at != NULL) *at++ = '\0';
  }
  return count;
}

struct csv {
  const char *path;
  FILE *file;
  int64_t line;
  int columns, position[COLUMNS]; /* where each column stands; -1: missing */
};

static neap_status read_header(struct csv *csv) {
  char line[LINE_LIMIT], *fields[FIELD_LIMIT];
  RETURN_IF(fgets(line, sizeof line, csv->file) == NULL, NEAP_BAD_FORMAT,
            "%s: line 1: the header id,lower,upper,size is missing", csv->path);
  csv->line = 1;
  csv->columns = split(line, fields);
  for (int c = 0; c < COLUMNS; c++) {
    csv->position[c] = -1;
    for (int i = 0; i < csv->columns; i++)
      if (strcmp(fields[i], column_names[c]) == 0) csv->position[c] = i;
    RETURN_IF(csv->position[c] < 0 && c != OFFSET, NEAP_BAD_FORMAT, "%s: line 1: there is no column '%s'",
              csv->path, column_names[c]);
  }
  return NEAP_OK;
}

static neap_status read_number(const struct csv *csv, char *const *fields, int column, int64_t *out) {
  const char *text = fields[csv->position[column]];
  char *end;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  RETURN_IF(errno != 0 || end == text || *end != '\0' || number < 0, NEAP_BAD_FORMAT,
            "%s: line %lld: column '%s': '%.40s' is not a whole number of 0 or more", csv->path,
            (long long)csv->line, column_names[column], text);
  *out = number;
  return NEAP_OK;
}

static neap_status read_row(const struct csv *csv, char *line, neap_buffer *buffer) {
  char *fields[FIELD_LIMIT];
  RETURN_IF(split(line, fields) != csv->columns, NEAP_BAD_FORMAT, "%s: line %lld: there should be %d fields",
            csv->path, (long long)csv->line, csv->columns);
  int64_t size = 0;
  TRY(read_number(csv, fields, LOWER, &buffer->lower));
  TRY(read_number(csv, fields, UPPER, &buffer->upper));
  TRY(read_number(csv, fields, SIZE, &size));
  RETURN_IF(buffer->upper <= buffer->lower, NEAP_BAD_FORMAT, "%s: line %lld: upper must be above lower",
            csv->path, (long long)csv->line);
  buffer->size = (uint64_t)size;
  return NEAP_OK;
}

neap_status neap_layout_read_csv(const char *path, neap_buffer **buffers, int64_t *count) {
  struct csv csv = {.path = path, .file = fopen(path, "r")};
  RETURN_IF(csv.file == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  VECTOR(neap_buffer) rows = {0};
  neap_status status = read_header(&csv);
  char line[LINE_LIMIT];
  while (status == NEAP_OK && fgets(line, sizeof line, csv.file) != NULL) {
    neap_buffer buffer = {0};
    csv.line++;
    if (line[strspn(line, " \t\r\n")] == '\0') continue;
    status = read_row(&csv, line, &buffer);
    if (status == NEAP_OK) status = vector_push(&rows, buffer);
  }
  if (ferror(csv.file)) status = neap_fail(NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  fclose(csv.file);
  if (status == NEAP_OK && rows.data == NULL) status = vector_reserve(&rows, 1);
  if (status != NEAP_OK) {
    vector_free(&rows);
    return status;
  }
  *buffers = rows.data;
  *count = (int64_t)rows.count;
  return NEAP_OK;
}

struct writing {
  FILE *source; /* for the ids */
  struct csv csv;
  const neap_buffer *buffers;
  int64_t count;
};

static bool write_rows(FILE *file, const void *context) {
  const struct writing *w = context;
  char line[LINE_LIMIT], *fields[FIELD_LIMIT];
  bool good = fputs("id,lower,upper,size,offset\n", file) >= 0;
  for (int64_t i = 0; good && i < w->count && fgets(line, sizeof line, w->source) != NULL;) {
    if (line[strspn(line, " \t\r\n")] == '\0') continue;
    if (split(line, fields) != w->csv.columns) return false;
    const neap_buffer *b = &w->buffers[i++];
    good = fprintf(file, "%s,%lld,%lld,%llu,%llu\n", fields[w->csv.position[ID]], (long long)b->lower,
                   (long long)b->upper, (unsigned long long)b->size, (unsigned long long)b->offset) > 0;
  }
  return good;
}

neap_status neap_layout_write_csv(const char *path, const char *source, const neap_buffer *buffers,
                                  int64_t count) {
  struct writing w = {.source = fopen(source, "r"), .buffers = buffers, .count = count};
  RETURN_IF(w.source == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", source, strerror(errno));
  w.csv = (struct csv){.path = source, .file = w.source};
  neap_status status = read_header(&w.csv);
  if (status == NEAP_OK) status = file_write(path, write_rows, &w);
  fclose(w.source);
  return status;
}
