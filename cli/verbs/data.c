/* neap data */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/understood.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *out;
};

const neap_setting data_options[] = {
    OWN_OPTION(struct settings, "o", "SHEET.png", NULL, "draw ten training images", TEXT, out,
               .flags = NEAP_SETTING_PATH),
    {0},
};

static const char *type_name(neap_dtype dtype) {
  return dtype == NEAP_U8 ? "u8" : dtype == NEAP_I32 ? "i32" : dtype == NEAP_F32 ? "f32" : "other";
}

static json_t *fields_json(const neap_data_report *r) {
  json_t *fields = json_array();
  for (int32_t i = 0; i < r->field_count; i++) {
    json_t *dims = json_array();
    for (int k = 0; k < r->fields[i].rank; k++)
      json_array_append_new(dims, json_integer(r->fields[i].dims[k]));
    json_array_append_new(fields, json_pack("{s:s, s:s, s:o}", "name", r->fields[i].name, "type",
                                            type_name(r->fields[i].dtype), "shape", dims));
  }
  return fields;
}

static json_t *report_json(const char *data, const neap_data_report *r) {
  json_t *classes = json_array(), *problems = json_array();
  for (int64_t c = 0; r->class_rows != NULL && c < r->classes; c++)
    json_array_append_new(classes,
                          json_pack("{s:s, s:I, s:I}", "name", r->class_rows[c].name, "training_records",
                                    (json_int_t)r->class_rows[c].training_records, "test_records",
                                    (json_int_t)r->class_rows[c].test_records));
  for (int64_t i = 0; i < r->problem_count; i++) json_array_append_new(problems, json_string(r->problems[i]));
  return json_pack("{s:s, s:s, s:o, s:I, s:I, s:o, s:[I, I], s:[I, I], s:o, s:o}", "data", data, "source",
                   r->source, "fields", fields_json(r), "training_records", (json_int_t)r->training_records,
                   "test_records", (json_int_t)r->test_records, "classes", classes, "least_size",
                   (json_int_t)r->least_size[0], (json_int_t)r->least_size[1], "most_size",
                   (json_int_t)r->most_size[0], (json_int_t)r->most_size[1], "problems", problems,
                   "understood", understood_json(r->understood, r->understood_count));
}

static void print_report(const char *data, const neap_data_report *r) {
  printf("data          %s\n", data);
  if (r->training_records + r->test_records > 0)
    printf("records       %lld for training, %lld for testing\n", (long long)r->training_records,
           (long long)r->test_records);
  for (int32_t i = 0; i < r->field_count; i++) {
    printf("%-13s '%s' of %s [", i == 0 ? "fields" : "", r->fields[i].name, type_name(r->fields[i].dtype));
    for (int k = 0; k < r->fields[i].rank; k++)
      printf("%s%lld", k > 0 ? ", " : "", (long long)r->fields[i].dims[k]);
    printf("]\n");
  }
  if (r->most_size[0] > 0)
    printf("sizes         %lldx%lld to %lldx%lld (height x width)\n", (long long)r->least_size[0],
           (long long)r->least_size[1], (long long)r->most_size[0], (long long)r->most_size[1]);
  print_understood(stdout, r->understood, r->understood_count);
  for (int64_t c = 0; r->class_rows != NULL && c < r->classes; c++)
    printf("%-13s %-24s %8lld and %lld\n", c == 0 ? "classes" : "", name_text(r->class_rows[c].name).text,
           (long long)r->class_rows[c].training_records, (long long)r->class_rows[c].test_records);
  for (int64_t i = 0; i < r->problem_count; i++)
    printf("%-13s %s\n", i == 0 ? "problems" : "", r->problems[i]);
}

static int print_sources(void) {
  neap_row row;
  for (int32_t i = 0; neap_data_at(i, &row); i++) printf("%-20s %s\n", row.name, row.summary);
  return EXIT_DONE;
}

int run_data(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  const struct operands *operands = &s.a.operands;
  if (operands->count == 0 && s.out == NULL && !s.a.json) return print_sources();
  if (operands->count != 1) return report_usage(verb, "exactly one data source is needed");
  neap_data_report *report;
  const neap_status status = neap_data_inspect(operands->values[0], s.out, &report);
  char error[1024];
  snprintf(error, sizeof error, "%s", status == NEAP_OK ? "" : neap_error_message());
  const bool listed = report != NULL && report->problem_count > 0 && !s.a.json && status == NEAP_BAD_FORMAT;
  int result = status == NEAP_OK ? EXIT_DONE : listed ? exit_status_of(status) : report_failure(verb, status);
  if (report != NULL && s.a.json && status != NEAP_INVALID_ARGUMENT) { /* else the error is the object */
    json_t *object = report_json(operands->values[0], report);
    json_object_set_new(object, "error", status == NEAP_OK ? json_null() : text_json(error, strlen(error)));
    const int printed = print_json(object);
    if (result == EXIT_DONE) result = printed;
  } else if (report != NULL && !s.a.json) {
    print_report(operands->values[0], report);
    if (listed)
      fprintf(stderr, "neap: %s: %lld problem%s, listed above\n", operands->values[0],
              (long long)report->problem_count, report->problem_count == 1 ? "" : "s");
  }
  neap_data_report_free(report);
  return result;
}
