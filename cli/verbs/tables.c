/* neap models, neap planners, neap ops */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/format.h"
#include "verbs/verbs.h"

/* Adds an operator: its types, and its attributes with those defaults that are known. */
static bool add_operator(json_t *object, int32_t index, const neap_row *row) {
  json_t *types = json_array(), *attributes = json_array();
  neap_attribute attribute;
  bool whole = true;
  for (int i = 0; row->types[i] != NULL; i++)
    whole = json_array_append_new(types, json_string(row->types[i])) == 0 && whole;
  for (int32_t i = 0; neap_attribute_at(index, i, &attribute); i++) {
    json_t *usual = attribute.usual == 0                     ? NULL
                    : strcmp(attribute.type, "integer") == 0 ? json_integer((json_int_t)attribute.usual)
                                                             : json_real(attribute.usual);
    whole = json_array_append_new(attributes, json_pack("{s:s, s:s, s:i, s:o*}", "name", attribute.name,
                                                        "type", attribute.type, "count", attribute.count,
                                                        "default", usual)) == 0 &&
            whole;
  }
  whole = json_object_set_new(object, "types", types) == 0 && whole;
  return json_object_set_new(object, "attributes", attributes) == 0 && whole;
}

static json_t *table_json(const char *title, bool (*row_at)(int32_t index, neap_row *row)) {
  json_t *rows = json_array();
  neap_row row;
  bool whole = true;
  for (int32_t i = 0; row_at(i, &row); i++) {
    json_t *object = json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "name", row.name, "summary", row.summary,
                               "source", row.source, "graphs", row.graphs, "promise", row.promise);
    if (row.types != NULL) whole = add_operator(object, i, &row) && whole;
    whole = json_array_append_new(rows, object) == 0 && whole;
  }
  if (whole) return json_pack("{s:o}", title, rows);
  json_decref(rows);
  return NULL;
}

enum { LINE_WIDTH = 118 };

/* "stride integer = 1, padding[2] integer" in lines that begin `indent` columns in. */
static void print_attributes(int32_t index, int indent) {
  neap_attribute attribute;
  int column = 0;
  for (int32_t i = 0; neap_attribute_at(index, i, &attribute); i++) {
    char size[16] = "", usual[32] = "", text[96];
    if (attribute.count > 1) snprintf(size, sizeof size, "[%d]", attribute.count);
    if (attribute.usual != 0) snprintf(usual, sizeof usual, " = %g", attribute.usual);
    const int length = snprintf(text, sizeof text, "%s%s %s%s", attribute.name, size, attribute.type, usual);
    const bool begins = i == 0 || column + length + 3 > LINE_WIDTH;
    if (i > 0) fputs(begins ? ",\n" : ", ", stdout);
    if (begins) printf("%*s", indent, "");
    fputs(text, stdout);
    column = begins ? indent + length : column + 2 + length;
  }
  if (column > 0) putchar('\n');
}

static void print_operators(void) {
  neap_row row;
  int width = 0;
  for (int32_t i = 0; neap_operator_at(i, &row); i++)
    if ((int)strlen(row.name) > width) width = (int)strlen(row.name);
  for (int32_t i = 0; neap_operator_at(i, &row); i++) {
    char types[64] = "";
    size_t length = 0;
    for (int k = 0; row.types[k] != NULL && length < sizeof types; k++)
      length +=
          (size_t)snprintf(types + length, sizeof types - length, "%s%s", k > 0 ? " " : "", row.types[k]);
    printf("%-*s  %-12s  %s\n", width, row.name, types, row.summary);
    print_attributes(i, width + 2 + 12 + 2);
  }
  puts("\nAfter an operator's name: the types of real numbers that it accepts. Below: its attributes; '= X': "
       "0 selects X.");
}

/* One row a line; what planners promise below it. */
static void print_rows(bool (*row_at)(int32_t index, neap_row *row)) {
  neap_row row;
  bool numbers = false;
  for (int32_t i = 0; row_at(i, &row); i++) {
    printf("%-26s %s%s%s%s\n", row.name, row.summary, row.source != NULL ? " (" : "",
           row.source != NULL ? row.source : "", row.source != NULL ? ")" : "");
    if (row.graphs != NULL) printf("%-26s graphs: %s; promises: %s\n", "", row.graphs, row.promise);
    numbers = numbers || strchr(row.name, '#') != NULL;
  }
  if (numbers) puts("\nA # is replaced by a number: wrn-28-2, resnet50.");
}

static int print_table(const struct verb *verb, int count, char **arguments, const char *title,
                       bool (*row_at)(int32_t index, neap_row *row)) {
  struct arguments a;
  if (!read_arguments(verb, count, arguments, NULL, &a)) return EXIT_USAGE;
  if (a.json) return print_json(table_json(title, row_at));
  if (row_at == neap_operator_at)
    print_operators();
  else
    print_rows(row_at);
  return EXIT_DONE;
}

int run_models(const struct verb *verb, int count, char **arguments) {
  return print_table(verb, count, arguments, "models", neap_model_at);
}

int run_planners(const struct verb *verb, int count, char **arguments) {
  return print_table(verb, count, arguments, "planners", neap_planner_at);
}

int run_operators(const struct verb *verb, int count, char **arguments) {
  return print_table(verb, count, arguments, "ops", neap_operator_at);
}
