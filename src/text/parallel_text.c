#include "text/parallel_text.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "text/text_file.h"

/* ---- Files ---- */

/* Names of files without the language, sorted. */
struct names {
  VECTOR(char *) list;
};

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static neap_status add_name(struct names *names, struct region *region, const char *file, const char *split,
                            const char *language) {
  const size_t length = strlen(file), ending = strlen(language) + 1, beginning = strlen(split);
  if (length < beginning + ending || strncmp(file, split, beginning) != 0) return NEAP_OK;
  if (file[length - ending] != '.' || strcmp(file + length - ending + 1, language) != 0) return NEAP_OK;
  char *name = region_string(region, file);
  RETURN_IF_NULL(name);
  name[length - ending] = '\0';
  return vector_push(&names->list, name);
}

static neap_status find_files(const char *folder, const char *split, const char *const languages[2],
                              struct region *region, struct names found[2]) {
  DIR *entries = opendir(folder);
  RETURN_IF(entries == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  neap_status status = NEAP_OK;
  const struct dirent *entry;
  while (status == NEAP_OK && (errno = 0, entry = readdir(entries)) != NULL)
    for (int side = 0; side < 2 && status == NEAP_OK; side++)
      status = add_name(&found[side], region, entry->d_name, split, languages[side]);
  if (status == NEAP_OK && errno != 0)
    status = neap_fail(NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  closedir(entries);
  for (int side = 0; side < 2; side++)
    if (found[side].list.count > 0)
      qsort(found[side].list.data, found[side].list.count, sizeof *found[side].list.data, compare_names);
  return status;
}

/* Fails unless both sides have the same names. */
static neap_status check_partners(const char *folder, const char *split, const char *const languages[2],
                                  const struct names found[2]) {
  const size_t counts[2] = {found[0].list.count, found[1].list.count};
  RETURN_IF(counts[0] + counts[1] == 0, NEAP_IO_FAILED, "%s: has no files %s*.%s and %s*.%s", folder, split,
            languages[0], split, languages[1]);
  for (size_t i = 0; i < counts[0] || i < counts[1]; i++) {
    const char *source = i < counts[0] ? found[0].list.data[i] : NULL;
    const char *target = i < counts[1] ? found[1].list.data[i] : NULL;
    const int order = source == NULL ? 1 : target == NULL ? -1 : strcmp(source, target);
    RETURN_IF(order != 0, NEAP_BAD_FORMAT, "%s/%s.%s: its partner %s.%s is missing", folder,
              order < 0 ? source : target, languages[order > 0], order < 0 ? source : target,
              languages[order < 0]);
  }
  return NEAP_OK;
}

/* ---- Lines ---- */

/* Takes the first line of a text that is not empty. */
static struct text take_line(struct text *rest) {
  struct text line = *rest;
  const char *end = memchr(rest->bytes, '\n', rest->length);
  if (end != NULL) line.length = (size_t)(end - rest->bytes);
  const size_t taken = line.length + (end != NULL);
  if (end != NULL && line.length > 0 && end[-1] == '\r') line.length--;
  rest->bytes += taken;
  rest->length -= taken;
  rest->line++;
  return line;
}

static bool is_empty(const struct text *line) {
  for (size_t i = 0; i < line->length; i++)
    if (line->bytes[i] != ' ' && line->bytes[i] != '\t') return false;
  return true;
}

static neap_status add_lines(struct parallel_text *text, struct text source, struct text target) {
  while (source.length > 0 && target.length > 0) {
    const struct line_pair pair = {take_line(&source), take_line(&target)};
    const bool none = is_empty(&pair.source);
    RETURN_IF(none != is_empty(&pair.target), NEAP_BAD_FORMAT,
              "%s: line %lld is empty, but not line %lld of %s", none ? source.name : target.name,
              (long long)pair.source.line, (long long)pair.source.line, none ? target.name : source.name);
    TRY(vector_push(&text->pairs, pair));
  }
  const bool short_source = source.length == 0;
  RETURN_IF(source.length > 0 || target.length > 0, NEAP_BAD_FORMAT,
            "%s: ends before line %lld, which %s has", short_source ? source.name : target.name,
            (long long)source.line, short_source ? target.name : source.name);
  return NEAP_OK;
}

static neap_status read_side(const char *folder, const char *name, const char *language,
                             struct region *region, struct text *text) {
  const char *path = region_format(region, "%s/%s.%s", folder, name, language);
  RETURN_IF_NULL(path);
  return text_read(path, true, region, text);
}

static neap_status read_files(const char *folder, const char *const languages[2], const struct names *names,
                              struct parallel_text *text) {
  for (size_t i = 0; i < names->list.count; i++) {
    struct text sides[2];
    for (int side = 0; side < 2; side++)
      TRY(read_side(folder, names->list.data[i], languages[side], &text->region, &sides[side]));
    for (int side = 0; side < 2; side++)
      if (sides[side].marked) text->marked_file = sides[side].name;
    TRY(add_lines(text, sides[0], sides[1]));
  }
  RETURN_IF(text->pairs.count == 0, NEAP_BAD_FORMAT, "%s/%s.%s: has no lines", folder, names->list.data[0],
            languages[0]);
  return NEAP_OK;
}

neap_status parallel_text_read(const char *folder, const char *split, const char *source, const char *target,
                               struct parallel_text *text) {
  const char *const languages[2] = {source, target};
  struct names found[2] = {0};
  *text = (struct parallel_text){0};
  RETURN_IF(strcmp(source, target) == 0, NEAP_INVALID_ARGUMENT, "%s: '%s' is given for both languages",
            folder, source);
  neap_status status = find_files(folder, split, languages, &text->region, found);
  if (status == NEAP_OK) status = check_partners(folder, split, languages, found);
  if (status == NEAP_OK) status = read_files(folder, languages, &found[0], text);
  vector_free(&found[0].list);
  vector_free(&found[1].list);
  return status;
}

void parallel_text_free(struct parallel_text *text) {
  vector_free(&text->pairs);
  region_free(&text->region);
}
