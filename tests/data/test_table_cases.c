/* Odd tables (table_cases.py): each is understood as pandas' cells and NumPy's statistics say by the rule, or
 * refused with line, column and cell. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data_help.h"
#include "effort.h"
#include "testing.h"

static char path[64];

static int start(void **state) {
  (void)state;
  strcpy(path, "/tmp/neap-cases-XXXXXX");
  return close(mkstemp(path));
}

static int end(void **state) {
  (void)state;
  return unlink(path);
}

static const char *text_of(const json_t *object, const char *name) {
  const char *text = json_string_value(json_object_get(object, name));
  assert_non_null(text);
  return text;
}

/* Opens the table with itself to test with, so that all rows give the means. */
static neap_status open_case(const json_t *c, struct loader *loader) {
  char name[512];
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs(text_of(c, "table"), file);
  assert_int_equal(fclose(file), 0);
  snprintf(name, sizeof name, "csv:%s,label=label,test=%s%s", path, path, text_of(c, "words"));
  return loader_open(loader, name, &(struct task){.kind = NEAP_TASK_FEATURES});
}

static void check_refused(const json_t *c, size_t number, neap_status status) {
  const json_t *texts = json_object_get(c, "refused"), *text;
  size_t i;
  if (status == NEAP_OK) fail_msg("case %zu: is taken", number);
  json_array_foreach(texts, i, text) if (strstr(neap_error_message(), json_string_value(text)) == NULL)
      fail_msg("case %zu: '%s' is not in: %s", number, json_string_value(text), neap_error_message());
}

/* Looks for a row of the report. */
static void check_row(const struct source *source, const json_t *row, size_t number) {
  const char *object = json_string_value(json_array_get(row, 0)),
             *became = json_string_value(json_array_get(row, 1));
  const int64_t count = json_integer_value(json_array_get(row, 2));
  for (size_t i = 0; i < source->understood.rows.count; i++) {
    const neap_understood *u = &source->understood.rows.data[i];
    if (strcmp(u->object, object) == 0 && strcmp(u->became, became) == 0 && u->count == count) return;
  }
  fail_msg("case %zu: no row says that %s became %s (%lld)", number, object, became, (long long)count);
}

static void check_record(const struct source *source, const json_t *record, size_t number) {
  const json_t *features = json_array_get(record, 2);
  const size_t width = json_array_size(features);
  float *values = calloc(width + 1, sizeof *values);
  int32_t label;
  void *fields[FIELD_LIMIT] = {values, &label};
  int64_t lengths[FIELD_LIMIT];
  assert_non_null(values);
  if (source->fields[0].dims[0] != (int64_t)width)
    fail_msg("case %zu: %lld features, not %zu", number, (long long)source->fields[0].dims[0], width);
  assert_int_equal(source->read(source, SPLIT_TRAIN, json_integer_value(json_array_get(record, 0)),
                                &(struct draw){0}, fields, lengths),
                   NEAP_OK);
  assert_int_equal(label, json_integer_value(json_array_get(record, 1)));
  for (size_t k = 0; k < width; k++) {
    const double wanted = json_number_value(json_array_get(features, k));
    if (fabs((double)values[k] - wanted) > 2e-6 * (1 + fabs(wanted)))
      fail_msg("case %zu: feature %zu is %.9g, not %.9g", number, k, (double)values[k], wanted);
  }
  free(values);
}

static void test_cases(void **state) {
  (void)state;
  json_error_t error;
  json_t *cases = json_load_file(TABLE_CASES, 0, &error);
  const json_t *c, *row;
  size_t i, k;
  int taken = 0, refused = 0;
  assert_non_null(cases);
  json_array_foreach(cases, i, c) {
    struct loader loader;
    if (leaves_out(i, 0, 4)) continue;
    const neap_status status = open_case(c, &loader);
    if (json_object_get(c, "refused") != NULL) {
      check_refused(c, i, status);
      refused++;
    } else {
      if (status != NEAP_OK) fail_msg("case %zu: %s", i, neap_error_message());
      json_array_foreach(json_object_get(c, "columns"), k, row) check_row(&loader.source, row, i);
      json_array_foreach(json_object_get(c, "records"), k, row) check_record(&loader.source, row, i);
      taken++;
    }
    loader_close(&loader);
  }
  json_decref(cases);
  assert_true(taken > 30 && refused > 20);
}

int run_test_table_cases(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, start, end);
}
