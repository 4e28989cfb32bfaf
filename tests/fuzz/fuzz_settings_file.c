/* Files of settings. What is read has each name once, in lines that the file has, in rising order, with texts
 * of UTF-8; written with every character escaped it is the same again. A value that a setting takes is the
 * same after it was written and read again. Refusals name the file, and so do those that a setting gives the
 * setting. Taken is a file that `neap train` would take. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { ENTRIES = 256 };

struct entries {
  struct {
    char *name, *text;
    int64_t line;
  } list[ENTRIES];
  int count;
};

static neap_status keep(void *context, const neap_setting_entry *entry) {
  struct entries *e = context;
  CHECK(e->count < ENTRIES && entry->name[0] != '\0');
  for (int i = 0; i < e->count; i++) CHECK(strcmp(e->list[i].name, entry->name) != 0);
  CHECK(e->count == 0 || entry->line >= e->list[e->count - 1].line);
  e->list[e->count].name = strdup(entry->name);
  e->list[e->count].text = strdup(entry->text);
  e->list[e->count].line = entry->line;
  CHECK(e->list[e->count].name != NULL && e->list[e->count].text != NULL);
  e->count++;
  return NEAP_OK;
}

static void clear(struct entries *e) {
  for (int i = 0; i < e->count; i++) free(e->list[i].name), free(e->list[i].text);
  e->count = 0;
}

/* Breaks of lines as YAML has them: CR, LF, CR LF, and in UTF-8 two of Unicode; UTF-16 has as many bytes. */
static int64_t count_lines(const uint8_t *data, size_t size) {
  int64_t lines = 1;
  for (size_t i = 0; i < size; i++)
    lines += data[i] == '\n' || data[i] == '\r' || data[i] == 0x85 || data[i] == 0x28 || data[i] == 0xA8 ||
             data[i] == 0xA9 || data[i] == 0x29;
  return lines;
}

static void put_escaped(FILE *file, const char *text) {
  json_t *string = json_string(text); /* refuses what is not UTF-8 */
  CHECK(string != NULL);
  fputc('"', file);
  for (const unsigned char *at = (const unsigned char *)text; *at != 0;) {
    uint32_t c = *at++;
    if (c >= 0xF0)
      c &= 7;
    else if (c >= 0xE0)
      c &= 15;
    else if (c >= 0xC0)
      c &= 31;
    while ((*at & 0xC0) == 0x80) c = c << 6 | (*at++ & 63);
    fprintf(file, "\\U%08x", (unsigned)c);
  }
  fputc('"', file);
  json_decref(string);
}

static void check_copy(const struct entries *e) {
  const char *path = fuzz_path("copy.yaml");
  struct entries again = {.count = 0};
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL);
  for (int i = 0; i < e->count; i++) {
    fputs("? ", file); /* a name that is longer than 1024 bytes needs it */
    put_escaped(file, e->list[i].name);
    fputs("\n: ", file);
    put_escaped(file, e->list[i].text);
    fputc('\n', file);
  }
  CHECK(fclose(file) == 0);
  CHECK_OK(neap_settings_read_file(path, keep, &again));
  CHECK(again.count == e->count);
  for (int i = 0; i < e->count; i++)
    CHECK(strcmp(e->list[i].name, again.list[i].name) == 0 &&
          strcmp(e->list[i].text, again.list[i].text) == 0);
  clear(&again);
}

static bool check_value(const char *name, const char *text) {
  static char written[1 << 20], rewritten[1 << 20];
  neap_train_options options = neap_train_options_usual(), again = options;
  neap_setting row;
  if (!neap_setting_at(neap_setting_find(name), &row)) return false;
  const neap_status status = neap_setting_read(&row, text, &options);
  if (status != NEAP_OK) {
    fuzz_check_refused(status, name);
    return false;
  }
  CHECK_OK(neap_setting_write(&row, &options, written, sizeof written));
  CHECK_OK(neap_setting_read(&row, written, &again));
  CHECK_OK(neap_setting_write(&row, &again, rewritten, sizeof rewritten));
  CHECK(strcmp(written, rewritten) == 0);
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("settings.yaml");
  static struct entries entries;
  fuzz_write(path, data, size);
  const neap_status status = neap_settings_read_file(path, keep, &entries);
  fuzz_taken = status == NEAP_OK;
  if (status != NEAP_OK) {
    CHECK(status == NEAP_BAD_FORMAT);
    fuzz_check_refused(status, path);
  } else {
    check_copy(&entries);
  }
  for (int i = 0; i < entries.count; i++) {
    CHECK(entries.list[i].line >= 1 && entries.list[i].line <= count_lines(data, size));
    fuzz_taken = check_value(entries.list[i].name, entries.list[i].text) && fuzz_taken;
  }
  clear(&entries);
  return 0;
}
