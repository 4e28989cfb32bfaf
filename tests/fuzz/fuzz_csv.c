/* Tables of text. The records of one that is read, written anew with every field in quotes, are read as the
 * same; as data it is records of finite numbers with labels that are classes, or a message names it; so it
 * is by other words of its name, and so are its first column's texts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../data_help.h"
#include "data/csv.h"
#include "support.h"

static void write_field(FILE *file, const char *text) {
  putc('"', file);
  for (; *text != '\0'; text++) {
    if (*text == '"') putc('"', file);
    putc(*text, file);
  }
  putc('"', file);
}

/* Writes the records of a file anew; whether all could be read. */
static bool write_again(const char *path, const char *copy) {
  struct csv csv;
  bool any = true, good = csv_open(path, &csv) == NEAP_OK;
  FILE *file = fopen(copy, "wb");
  CHECK(file != NULL);
  while (good && any) {
    const neap_status status = csv_next(&csv, &any);
    if (status != NEAP_OK) fuzz_check_refused(status, path);
    good = status == NEAP_OK;
    for (size_t i = 0; good && any && i < csv.fields.count; i++) {
      if (i > 0) putc(csv.separator, file);
      write_field(file, csv_field(&csv, i));
    }
    if (good && any) fputs("\r\n", file);
  }
  csv_close(&csv);
  CHECK(fclose(file) == 0);
  return good;
}

static void check_same(const char *path, const char *copy) {
  struct csv a, b;
  bool any = true, other;
  CHECK_OK(csv_open(path, &a));
  CHECK_OK(csv_open(copy, &b));
  b.separator = a.separator; /* which one record alone may not tell */
  while (any) {
    CHECK_OK(csv_next(&a, &any));
    CHECK_OK(csv_next(&b, &other));
    CHECK(any == other && (!any || a.fields.count == b.fields.count));
    for (size_t i = 0; any && i < a.fields.count; i++) CHECK(strcmp(csv_field(&a, i), csv_field(&b, i)) == 0);
  }
  csv_close(&a);
  csv_close(&b);
}

static void check_records(const struct source *source) {
  const int64_t width = source->fields[0].dims[0];
  const bool values = source->fields[1].dtype == NEAP_F32;
  float *features = malloc((size_t)width * sizeof *features);
  CHECK(features != NULL && source->records[0] > 0 && source->records[1] > 0);
  for (int s = 0; s < SPLITS; s++)
    for (int64_t i = 0; i < source->records[s]; i++) {
      int32_t label;
      void *fields[FIELD_LIMIT] = {features, &label};
      int64_t lengths[FIELD_LIMIT];
      CHECK_OK(source->read(source, (enum split)s, i, &(struct draw){0}, fields, lengths));
      for (int64_t k = 0; k < width; k++) CHECK(isfinite(features[k]));
      CHECK(values || (label >= 0 && label < source->classes));
    }
  free(features);
}

static void check_texts(const struct source *source) {
  int32_t *tokens = malloc((size_t)source->sequence_length * sizeof *tokens);
  CHECK(tokens != NULL && source->records[0] > 0 && source->records[1] > 0);
  for (int s = 0; s < SPLITS; s++)
    for (int64_t i = 0; i < source->records[s]; i++) {
      int32_t label;
      void *fields[FIELD_LIMIT] = {tokens, &label};
      int64_t lengths[FIELD_LIMIT];
      CHECK_OK(source->read(source, (enum split)s, i, &(struct draw){0}, fields, lengths));
      CHECK(lengths[0] > 0 && lengths[0] <= source->sequence_length);
      for (int64_t k = 0; k < lengths[0]; k++) CHECK(tokens[k] >= 0 && tokens[k] < 256);
    }
  free(tokens);
}

/* The same file as texts of its first column. */
static void open_as_texts(const char *path) {
  char text[400];
  struct csv csv;
  struct loader loader;
  bool any = false;
  const bool named = csv_open(path, &csv) == NEAP_OK && csv_next(&csv, &any) == NEAP_OK && any &&
                     strlen(csv_field(&csv, 0)) < 100 && strchr(csv_field(&csv, 0), ',') == NULL;
  if (named) {
    snprintf(text, sizeof text, "csv:%s,text=%s", path, csv_field(&csv, 0));
    const neap_status status =
        loader_open(&loader, text, &(struct task){.kind = NEAP_TASK_TEXTS, .length = 16});
    if (status == NEAP_OK)
      check_texts(&loader.source);
    else
      CHECK(status != NEAP_INTERNAL && neap_error_message()[0] != '\0');
    loader_close(&loader);
  }
  csv_close(&csv);
}

/* The same file with words that take other cells for numbers and gaps. */
static void open_otherwise(const char *path) {
  static const char *const words[] = {",decimal=comma,missing=NA;x;-1", ",task=regression,missing="};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    char text[200];
    struct loader loader;
    snprintf(text, sizeof text, "csv:%s%s", path, words[i]);
    const neap_status status = loader_open(&loader, text, &(struct task){.kind = NEAP_TASK_FEATURES});
    if (status == NEAP_OK)
      check_records(&loader.source);
    else
      CHECK(status != NEAP_INTERNAL && neap_error_message()[0] != '\0');
    loader_close(&loader);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("table.csv"), *copy = fuzz_path("copy.csv");
  char text[160];
  struct loader loader;
  fuzz_write(path, data, size);
  if (write_again(path, copy)) check_same(path, copy);
  snprintf(text, sizeof text, "csv:%s", path);
  const neap_status status = loader_open(&loader, text, &(struct task){.kind = NEAP_TASK_FEATURES});
  fuzz_taken = status == NEAP_OK;
  if (fuzz_taken)
    check_records(&loader.source);
  else
    CHECK(status != NEAP_INTERNAL && neap_error_message()[0] != '\0');
  loader_close(&loader);
  open_as_texts(path);
  open_otherwise(path);
  return 0;
}
