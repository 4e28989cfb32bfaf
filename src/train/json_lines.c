#include "train/json_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* Reads a line; `*object` is NULL for one that is cut short, at the end of the file. */
static neap_status parse_line(const char *path, const char *what, int64_t number, const char *line,
                              size_t length, int64_t *step, json_t **object) {
  *object = NULL;
  if (length == 0 || line[length - 1] != '\n') return NEAP_OK;
  json_t *made = json_loadb(line, length, 0, NULL);
  const json_t *value = json_object_get(made, "step");
  const bool valid = json_is_integer(value) && json_integer_value(value) >= 0;
  *step = json_integer_value(value);
  if (!valid) json_decref(made);
  RETURN_IF(!valid, NEAP_BAD_FORMAT, "%s: line %lld is not a line of %s; name another file", path,
            (long long)number, what);
  *object = made;
  return NEAP_OK;
}

/* Takes lines until `take` fails or says that it has enough. `*end`: the bytes of those that it took. */
static neap_status read_lines(FILE *file, const char *path, const char *what, json_line_taker *take,
                              void *context, off_t *end) {
  neap_status status = NEAP_OK;
  char *line = NULL;
  size_t capacity = 0;
  ssize_t length;
  *end = 0;
  for (int64_t number = 1; status == NEAP_OK && (length = getline(&line, &capacity, file)) >= 0; number++) {
    int64_t step;
    json_t *object;
    TRY_DONE(parse_line(path, what, number, line, (size_t)length, &step, &object));
    if (object == NULL) break;
    status = take(context, step, object);
    json_decref(object);
    if (status == NEAP_OK) *end += length;
  }
  if (ferror(file)) status = neap_fail(NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
done:
  free(line);
  return status;
}

neap_status json_lines_read(const char *path, const char *what, json_line_taker *take, void *context) {
  off_t unused;
  FILE *file = file_open_stream(path);
  RETURN_IF(file == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  const neap_status status = read_lines(file, path, what, take, context, &unused);
  fclose(file);
  return status;
}

/* Ends the reading at the first line after a step. */
struct until {
  int64_t step;
  bool passed;
};
static neap_status take_until(void *context, int64_t step, json_t *object) {
  struct until *u = context;
  (void)object;
  u->passed = step > u->step;
  return u->passed ? NEAP_INTERRUPTED : NEAP_OK;
}

/* Cuts the file after the lines up to `resumed_step`, and goes to its end. */
static neap_status cut(FILE *file, const char *path, const char *what, int64_t resumed_step) {
  struct until until = {.step = resumed_step};
  off_t end;
  const neap_status status = read_lines(file, path, what, take_until, &until, &end);
  if (status != NEAP_OK && !until.passed) return status;
  RETURN_IF(ftruncate(fileno(file), end) != 0 || fseeko(file, end, SEEK_SET) != 0, NEAP_IO_FAILED,
            "%s: cannot be cut to %lld bytes: %s", path, (long long)end, strerror(errno));
  return NEAP_OK;
}

neap_status json_lines_open(const char *path, const char *what, int64_t resumed_step,
                            struct json_lines *lines) {
  *lines = (struct json_lines){.path = path};
  if (path == NULL) return NEAP_OK;
  FILE *file = resumed_step >= 0 ? fopen(path, "r+be") : NULL;
  const bool goes_on = file != NULL;
  if (resumed_step < 0 || (!goes_on && errno == ENOENT)) file = fopen(path, "wbe");
  RETURN_IF(file == NULL, NEAP_IO_FAILED, "%s: cannot be written: %s", path, strerror(errno));
  const neap_status status = goes_on ? cut(file, path, what, resumed_step) : NEAP_OK;
  if (status == NEAP_OK)
    lines->file = file;
  else
    fclose(file);
  return status;
}

neap_status json_lines_write(struct json_lines *lines, json_t *object) {
  if (lines->file == NULL) {
    json_decref(object);
    return NEAP_OK;
  }
  char *text = json_dumps(object, JSON_REAL_PRECISION(9));
  json_decref(object);
  RETURN_IF(text == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", lines->path);
  /* Given to the system line by line: of a process that is killed only the last one may be lost. */
  const bool written =
      fprintf(lines->file, "%s\n", text) > 0 && fflush(lines->file) == 0 && !ferror(lines->file);
  free(text);
  RETURN_IF(!written, NEAP_IO_FAILED, "%s: cannot be written: %s", lines->path, strerror(errno));
  return NEAP_OK;
}

neap_status json_lines_sync(struct json_lines *lines) {
  if (lines->file == NULL) return NEAP_OK;
  /* A pipe or a terminal cannot be synced, and need not be. */
  const bool synced =
      fdatasync(fileno(lines->file)) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
  RETURN_IF(!synced, NEAP_IO_FAILED, "%s: cannot be written: %s", lines->path, strerror(errno));
  return NEAP_OK;
}

neap_status json_lines_close(struct json_lines *lines) {
  FILE *file = lines->file;
  lines->file = NULL;
  RETURN_IF(file != NULL && fclose(file) != 0, NEAP_IO_FAILED, "%s: cannot be written: %s", lines->path,
            strerror(errno));
  return NEAP_OK;
}
