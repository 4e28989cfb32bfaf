/* neap models, neap planners, neap ops */
#include <stddef.h>
#include <string.h>

#include "cli.h"

struct settings {
  bool json;
};

const struct option table_options[] = {
    {"--json", NULL, "one JSON object on standard output", OPTION_SWITCH, offsetof(struct settings, json), 0,
     0},
    {0},
};

static json_t *table_json(const char *title, bool (*row_at)(int32_t index, neap_row *row)) {
  json_t *rows = json_array();
  neap_row row;
  bool whole = true;
  for (int32_t i = 0; row_at(i, &row); i++)
    whole = json_array_append_new(rows, json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "name", row.name, "summary",
                                                  row.summary, "source", row.source, "graphs", row.graphs,
                                                  "promise", row.promise)) == 0 &&
            whole;
  if (whole) return json_pack("{s:o}", title, rows);
  json_decref(rows);
  return NULL;
}

static int print_table(const struct verb *verb, int count, char **arguments, const char *title,
                       bool (*row_at)(int32_t index, neap_row *row)) {
  struct settings s = {0};
  struct operands operands;
  if (!read_arguments(verb, count, arguments, &s, &operands, NULL)) return EXIT_USAGE;
  if (operands.count > 0) return report_usage(verb, "%s: there is no use for it", operands.values[0]);
  if (s.json) return print_json(table_json(title, row_at));
  neap_row row;
  bool numbers = false;
  for (int32_t i = 0; row_at(i, &row); i++) {
    printf("%-26s %s%s%s%s\n", row.name, row.summary, row.source != NULL ? " (" : "",
           row.source != NULL ? row.source : "", row.source != NULL ? ")" : "");
    if (row.graphs != NULL) printf("%-26s graphs: %s; promises: %s\n", "", row.graphs, row.promise);
    numbers = numbers || strchr(row.name, '#') != NULL;
  }
  if (numbers) puts("\nA # stands for a number: wrn-28-2, resnet50.");
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
