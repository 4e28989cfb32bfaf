/* Buffers as CSV: id,lower,upper,size in; the same with offset out. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/vector.h"

enum { ID, LOWER, UPPER, SIZE, OFFSET, COLUMNS, FIELD_LIMIT = 16, LINE_LIMIT = 1 << 16 };
static const char *const column_names[COLUMNS] = {"id", "lower", "upper", "size", "offset"};

static const char byte_order_mark[] = "\xEF\xBB\xBF"; /* spreadsheets begin a file with it */

static const char blanks[] = " \t";

/* Cuts a line in place at its commas and the blanks around them. Returns the number of fields; stores the
 * first FIELD_LIMIT. */
static int split(char *line, char **fields) {
  int count = 0;
  for (char *at = line; at != NULL; count++) {
    char *const field = at + strspn(at, blanks), *end = strchr(at, ',');
    at = end != NULL ? end + 1 : NULL;
    if (end == NULL) end = field + strlen(field);
    while (end > field && strchr(blanks, end[-1]) != NULL) end--;
    *end = '\0';
    if (count < FIELD_LIMIT) fields[count] = field;
  }
  return count;
}

struct csv {
  const char *path;
  FILE *file;
  char text[LINE_LIMIT]; /* of the line that was read last */
  int64_t line;
  int columns, position[COLUMNS]; /* where each column stands; -1: missing */
};

static neap_status open_csv(const char *path, struct csv *csv) {
  *csv = (struct csv){.path = path, .file = fopen(path, "r")};
  RETURN_IF(csv->file == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  return NEAP_OK;
}

static void close_csv(struct csv *csv) { fclose(csv->file); }

/* Reads a line without its end. `*more`: there is one. */
static neap_status read_line(struct csv *csv, bool *more) {
  size_t length = 0;
  int c;
  while ((c = getc(csv->file)) != EOF && c != '\n') {
    RETURN_IF(c == '\0', NEAP_BAD_FORMAT, "%s: line %lld: contains a zero byte", csv->path,
              (long long)csv->line + 1);
    RETURN_IF(length == LINE_LIMIT - 1, NEAP_BAD_FORMAT, "%s: line %lld: has more than %d bytes", csv->path,
              (long long)csv->line + 1, LINE_LIMIT - 1);
    csv->text[length++] = (char)c;
  }
  RETURN_IF(ferror(csv->file), NEAP_IO_FAILED, "%s: cannot be read: %s", csv->path, strerror(errno));
  if (length > 0 && csv->text[length - 1] == '\r') length--;
  csv->text[length] = '\0';
  *more = c != EOF || length > 0;
  return NEAP_OK;
}

/* Reads the next line that is not blank, without its end. `*more`: there is one. */
static neap_status next_line(struct csv *csv, bool *more) {
  do {
    TRY(read_line(csv, more));
    csv->line++;
  } while (*more && csv->text[strspn(csv->text, blanks)] == '\0');
  return NEAP_OK;
}

static neap_status read_header(struct csv *csv) {
  char *fields[FIELD_LIMIT];
  bool more;
  TRY(next_line(csv, &more));
  RETURN_IF(!more, NEAP_BAD_FORMAT, "%s: line 1: the header id,lower,upper,size is missing", csv->path);
  const bool marked = strncmp(csv->text, byte_order_mark, strlen(byte_order_mark)) == 0;
  csv->columns = split(csv->text + (marked ? strlen(byte_order_mark) : 0), fields);
  RETURN_IF(csv->columns > FIELD_LIMIT, NEAP_BAD_FORMAT, "%s: line %lld: has more than %d columns", csv->path,
            (long long)csv->line, FIELD_LIMIT);
  for (int c = 0; c < COLUMNS; c++) {
    csv->position[c] = -1;
    for (int i = 0; i < csv->columns; i++)
      if (strcmp(fields[i], column_names[c]) == 0) {
        RETURN_IF(csv->position[c] >= 0, NEAP_BAD_FORMAT, "%s: line %lld: has two columns '%s'", csv->path,
                  (long long)csv->line, column_names[c]);
        csv->position[c] = i;
      }
    RETURN_IF(csv->position[c] < 0 && c != OFFSET, NEAP_BAD_FORMAT, "%s: line %lld: column '%s' is missing",
              csv->path, (long long)csv->line, column_names[c]);
  }
  return NEAP_OK;
}

static neap_status read_number(const struct csv *csv, char *const *fields, int column, int64_t *out) {
  const char *text = fields[csv->position[column]];
  char *end;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  RETURN_IF(errno != 0 || end == text || *end != '\0' || isspace((unsigned char)*text), NEAP_BAD_FORMAT,
            "%s: line %lld: column '%s': '%.40s' is not a whole number from -2^63 to 2^63 - 1", csv->path,
            (long long)csv->line, column_names[column], text);
  *out = number;
  return NEAP_OK;
}

static neap_status read_row(struct csv *csv, neap_buffer *buffer) {
  char *fields[FIELD_LIMIT];
  RETURN_IF(split(csv->text, fields) != csv->columns, NEAP_BAD_FORMAT, "%s: line %lld: must have %d fields",
            csv->path, (long long)csv->line, csv->columns);
  int64_t size = 0;
  TRY(read_number(csv, fields, LOWER, &buffer->lower));
  TRY(read_number(csv, fields, UPPER, &buffer->upper));
  TRY(read_number(csv, fields, SIZE, &size));
  RETURN_IF(size < 0, NEAP_BAD_FORMAT, "%s: line %lld: the size must be 0 or more", csv->path,
            (long long)csv->line);
  RETURN_IF(buffer->upper <= buffer->lower, NEAP_BAD_FORMAT, "%s: line %lld: upper must be above lower",
            csv->path, (long long)csv->line);
  buffer->size = (uint64_t)size;
  return NEAP_OK;
}

neap_status neap_layout_read_csv(const char *path, neap_buffer **buffers, int64_t *count) {
  NEED(path);
  NEED(buffers);
  NEED(count);
  struct csv csv;
  TRY(open_csv(path, &csv));
  VECTOR(neap_buffer) rows = {0};
  neap_status status = read_header(&csv);
  for (bool more = true; status == NEAP_OK && more;) {
    neap_buffer buffer = {0};
    status = next_line(&csv, &more);
    if (status == NEAP_OK && more) status = read_row(&csv, &buffer);
    if (status == NEAP_OK && more) status = vector_push(&rows, buffer);
  }
  close_csv(&csv);
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

static neap_status write_row(FILE *file, const struct writing *w, const neap_buffer *buffer) {
  char *fields[FIELD_LIMIT];
  RETURN_IF(split(w->source->text, fields) != w->source->columns, NEAP_BAD_FORMAT,
            "%s: line %lld: must have %d fields", w->source->path, (long long)w->source->line,
            w->source->columns);
  RETURN_IF(fprintf(file, "%s,%lld,%lld,%llu,%llu\n", fields[w->source->position[ID]],
                    (long long)buffer->lower, (long long)buffer->upper, (unsigned long long)buffer->size,
                    (unsigned long long)buffer->offset) < 0,
            NEAP_IO_FAILED, "the row of line %lld of %s: %s", (long long)w->source->line, w->source->path,
            strerror(errno));
  return NEAP_OK;
}

static neap_status write_rows(FILE *file, const struct writing *w) {
  int64_t rows = 0;
  RETURN_IF(fputs("id,lower,upper,size,offset\n", file) < 0, NEAP_IO_FAILED, "the header: %s",
            strerror(errno));
  for (bool more = true; more; rows += more) {
    TRY(next_line(w->source, &more));
    if (more && rows < w->count) TRY(write_row(file, w, &w->buffers[rows]));
  }
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
  NEED(path);
  NEED(source);
  RETURN_IF(count < 0 || (count > 0 && buffers == NULL), NEAP_INVALID_ARGUMENT,
            "%s: has %lld buffers to write, but buffers is NULL", path, (long long)count);
  struct csv csv;
  TRY(open_csv(source, &csv));
  struct ending ending = {NEAP_OK, ""};
  const struct writing w = {&csv, buffers, count, &ending};
  neap_status status = read_header(&csv);
  if (status == NEAP_OK) status = file_write(path, write_csv, &w);
  close_csv(&csv);
  TRY(ending_tell(&ending));
  return status;
}
