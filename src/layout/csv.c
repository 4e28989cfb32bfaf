/* Buffers as CSV: id,lower,upper,size in; the same with offset out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/vector.h"

enum { ID, LOWER, UPPER, SIZE, OFFSET, COLUMNS, LINE_LIMIT = 4096, FIELD_LIMIT = 16 };
static const char *const column_names[COLUMNS] = {"id", "lower", "upper", "size", "offset"};

static const char byte_order_mark[] = "\xEF\xBB\xBF"; /* spreadsheets begin a file with it */

static const char blanks[] = " \t\r\n";

/* Cuts a line at its commas and the blanks around them, in place. */
static int split(char *line, char **fields) {
  int count = 0;
  for (char *at = line; at != NULL && count < FIELD_LIMIT; count++) {
    char *const field = at + strspn(at, blanks), *end = strchr(at, ',');
    at = end != NULL ? end + 1 : NULL;
    if (end == NULL) end = field + strlen(field);
    while (end > field && strchr(blanks, end[-1]) != NULL) end--;
    *end = '\0';
    fields[count] = field;
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
  const bool read = fgets(line, sizeof line, csv->file) != NULL;
  RETURN_IF(ferror(csv->file), NEAP_IO_FAILED, "%s: cannot be read: %s", csv->path, strerror(errno));
  RETURN_IF(!read, NEAP_BAD_FORMAT, "%s: line 1: the header id,lower,upper,size is missing", csv->path);
  csv->line = 1;
  csv->columns = split(line + (strncmp(line, byte_order_mark, strlen(byte_order_mark)) == 0 ? 3 : 0), fields);
  for (int c = 0; c < COLUMNS; c++) {
    csv->position[c] = -1;
    for (int i = 0; i < csv->columns; i++)
      if (strcmp(fields[i], column_names[c]) == 0) {
        RETURN_IF(csv->position[c] >= 0, NEAP_BAD_FORMAT, "%s: line 1: there are two columns '%s'", csv->path,
                  column_names[c]);
        csv->position[c] = i;
      }
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
  RETURN_IF(errno != 0 || end == text || *end != '\0', NEAP_BAD_FORMAT,
            "%s: line %lld: column '%s': '%.40s' is not a whole number below 2^63", csv->path,
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
  RETURN_IF(size < 0, NEAP_BAD_FORMAT, "%s: line %lld: the size is below 0", csv->path, (long long)csv->line);
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
    if (line[strspn(line, blanks)] == '\0') continue;
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
  struct csv *source; /* for the ids */
  const neap_buffer *buffers;
  int64_t count;
  struct ending *ending; /* why it failed: the file's writer knows only that */
};

static neap_status write_row(FILE *file, const struct writing *w, char *line, const neap_buffer *buffer) {
  char *fields[FIELD_LIMIT];
  RETURN_IF(split(line, fields) != w->source->columns, NEAP_BAD_FORMAT,
            "%s: line %lld: there should be %d fields", w->source->path, (long long)w->source->line,
            w->source->columns);
  RETURN_IF(fprintf(file, "%s,%lld,%lld,%llu,%llu\n", fields[w->source->position[ID]],
                    (long long)buffer->lower, (long long)buffer->upper, (unsigned long long)buffer->size,
                    (unsigned long long)buffer->offset) < 0,
            NEAP_IO_FAILED, "the row of line %lld of %s: %s", (long long)w->source->line, w->source->path,
            strerror(errno));
  return NEAP_OK;
}

static neap_status write_rows(FILE *file, const struct writing *w) {
  char line[LINE_LIMIT];
  int64_t rows = 0;
  RETURN_IF(fputs("id,lower,upper,size,offset\n", file) < 0, NEAP_IO_FAILED, "the header: %s",
            strerror(errno));
  while (fgets(line, sizeof line, w->source->file) != NULL) {
    w->source->line++;
    if (line[strspn(line, blanks)] == '\0') continue;
    if (rows < w->count) TRY(write_row(file, w, line, &w->buffers[rows]));
    rows++;
  }
  RETURN_IF(ferror(w->source->file), NEAP_IO_FAILED, "%s: cannot be read: %s", w->source->path,
            strerror(errno));
  RETURN_IF(rows != w->count, NEAP_INVALID_ARGUMENT, "%s: has %lld rows for %lld buffers", w->source->path,
            (long long)rows, (long long)w->count);
  return NEAP_OK;
}

static bool write_csv(FILE *file, const void *context) {
  const struct writing *w = context;
  ending_keep(w->ending, write_rows(file, w));
  return w->ending->status == NEAP_OK;
}

neap_status neap_layout_write_csv(const char *path, const char *source, const neap_buffer *buffers,
                                  int64_t count) {
  struct csv csv = {.path = source, .file = fopen(source, "r")};
  RETURN_IF(csv.file == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", source, strerror(errno));
  struct ending ending = {NEAP_OK, ""};
  const struct writing w = {&csv, buffers, count, &ending};
  neap_status status = read_header(&csv);
  if (status == NEAP_OK) status = file_write(path, write_csv, &w);
  fclose(csv.file);
  TRY(ending_tell(&ending));
  return status;
}
