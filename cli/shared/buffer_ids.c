/* The ids in a file of buffers: each names one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/buffer_ids.h"
#include "shared/format.h"

struct id {
  char *text;
  int64_t line;
};

struct ids {
  struct id *list;
  int64_t count, capacity;
};

static int by_text(const void *a, const void *b) {
  const struct id *x = a, *y = b;
  const int order = strcmp(x->text, y->text);
  return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

/* The field of a line in that column, without the blanks around it; NULL: none exists. Cuts the line. */
static char *field_at(char *line, int column) {
  char *at = line;
  line[strcspn(line, "\r\n")] = '\0';
  for (; column > 0 && at != NULL; column--) {
    at = strchr(at, ',');
    if (at != NULL) at++;
  }
  if (at == NULL) return NULL;
  at += strspn(at, " \t");
  char *end = at + strcspn(at, ",");
  while (end > at && strchr(" \t", end[-1]) != NULL) end--;
  *end = '\0';
  return at;
}

/* Returns the index of the column called "id"; -1: none. */
static int id_column(const char *header) {
  static const char mark[] = "\xEF\xBB\xBF"; /* spreadsheets begin a file with it */
  if (strncmp(header, mark, strlen(mark)) == 0) header += strlen(mark);
  for (int column = 0;; column++) {
    char *copy = strdup(header), *field = copy != NULL ? field_at(copy, column) : NULL;
    const bool ends = field == NULL, found = !ends && strcmp(field, "id") == 0;
    free(copy);
    if (ends || found) return found ? column : -1;
  }
}

static bool add_id(struct ids *ids, const char *text, int64_t line) {
  if (ids->count == ids->capacity) {
    const int64_t capacity = 2 * ids->capacity + 256;
    struct id *list = realloc(ids->list, (size_t)capacity * sizeof *list);
    if (list == NULL) return false;
    ids->list = list;
    ids->capacity = capacity;
  }
  char *copy = strdup(text);
  if (copy == NULL) return false;
  ids->list[ids->count++] = (struct id){copy, line};
  return true;
}

/* False: memory is out. What is wrong with the file the library has said. */
static bool read_ids(FILE *file, struct ids *ids) {
  char *text = NULL;
  size_t size = 0;
  bool good = true;
  int column = -1;
  int64_t line = 1;
  for (; good && getline(&text, &size, file) >= 0; line++) {
    if (text[strspn(text, " \t\r\n")] == '\0') continue;
    if (column < 0) {
      column = id_column(text);
      if (column < 0) break;
      continue;
    }
    const char *id = field_at(text, column);
    if (id != NULL) good = add_id(ids, id, line);
  }
  free(text);
  return good;
}

static int find_twice(const char *path, struct ids *ids) {
  if (ids->count > 0) qsort(ids->list, (size_t)ids->count, sizeof *ids->list, by_text);
  const struct id *second = NULL;
  for (int64_t i = 1; i < ids->count; i++)
    if (strcmp(ids->list[i].text, ids->list[i - 1].text) == 0 &&
        (second == NULL || ids->list[i].line < second->line))
      second = &ids->list[i];
  if (second == NULL) return EXIT_DONE;
  fprintf(stderr, "neap: %s: line %lld: the id '%s' is used twice; ids must differ\n", path,
          (long long)second->line, name_text(second->text).text);
  return EXIT_FAILED;
}

int check_buffer_ids(const char *path) {
  struct ids ids = {0};
  FILE *file = fopen(path, "re");
  const bool read = file != NULL && read_ids(file, &ids) && !ferror(file);
  const int why = errno;
  if (file != NULL) fclose(file);
  int result = EXIT_FAILED;
  if (read)
    result = find_twice(path, &ids);
  else
    fprintf(stderr, "neap: %s: cannot be read a second time to check its ids: %s\n", path, strerror(why));
  for (int64_t i = 0; i < ids.count; i++) free(ids.list[i].text);
  free(ids.list);
  return result;
}
