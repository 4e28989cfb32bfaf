#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/lines.h"

void free_lines(struct lines *lines) {
  for (size_t i = 0; i < lines->count; i++) free(lines->list[i]);
  free(lines->list);
  *lines = (struct lines){0};
}

bool add_line(struct lines *lines, const char *text) {
  if (lines->count == lines->capacity) {
    const size_t capacity = 2 * lines->capacity + 64;
    char **list = reallocarray(lines->list, capacity, sizeof *list);
    if (list == NULL) return false;
    lines->list = list;
    lines->capacity = capacity;
  }
  lines->list[lines->count] = strdup(text);
  return lines->list[lines->count] != NULL && ++lines->count > 0;
}

static int add_lines(const struct verb *verb, FILE *file, const char *name, struct lines *lines) {
  char *text = NULL;
  size_t size = 0;
  ssize_t length;
  int result = EXIT_DONE;
  while (result == EXIT_DONE && (length = getline(&text, &size, file)) >= 0) {
    if (strlen(text) != (size_t)length) {
      fprintf(stderr, "neap: %s: line %zu: contains a zero byte, so it is not text\n", name,
              lines->count + 1);
      result = EXIT_FAILED;
    }
    if (lines->count == 0 && strncmp(text, "\xEF\xBB\xBF", 3) == 0) {
      fprintf(stderr, "neap: %s: begins with a byte-order mark, which was skipped\n", name);
      length -= 3;
      memmove(text, text + 3, (size_t)length + 1);
    }
    if (length > 0 && text[length - 1] == '\n') text[--length] = '\0';
    if (length > 0 && text[length - 1] == '\r') text[--length] = '\0';
    if (result == EXIT_DONE && !add_line(lines, text)) result = report_failure(verb, no_memory());
  }
  if (result == EXIT_DONE && !feof(file)) {
    fprintf(stderr, "neap: %s: cannot be read: %m\n", name);
    result = EXIT_FAILED;
  }
  free(text);
  return result;
}

int read_lines(const struct verb *verb, const char *path, struct lines *lines) {
  FILE *file = path != NULL ? fopen(path, "re") : stdin;
  if (file == NULL) {
    fprintf(stderr, "neap: %s: cannot be read: %m\n", path);
    return EXIT_FAILED;
  }
  const int result = add_lines(verb, file, path != NULL ? path : "standard input", lines);
  if (path != NULL) fclose(file);
  return result;
}
