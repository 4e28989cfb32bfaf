/* The neap command: a table of verbs. */
#include <string.h>

#include "cli.h"

const struct option_row table_options[] = {{"--json", NULL, "one JSON object on standard output"}, {0}};

static const struct verb verbs[] = {
    {"train", "--model M --data D --budget B [options]",
     "Trains a network inside a budget of bytes, with the same bits as without one.", train_options,
     run_train},
    {"plan", "(--model M --batch N | GRAPH.json) --budget B [options]",
     "Finds the fastest way to run a training step inside a budget.", plan_options, run_plan},
    {"curve", "(--model M --batch N | GRAPH.json) [options]", "Memory against time: what each budget costs.",
     curve_options, run_curve},
    {"show", "GRAPH.json [PLAN.json] [options]", "Where do the bytes go, over the step?", show_options,
     run_show},
    {"check", "GRAPH.json PLAN.json", "Checks a plan against the rules, independently of what made it.",
     check_options, run_check},
    {"graph", "--model M --batch N -o GRAPH.json", "Writes a model's training step as a graph file.",
     graph_options, run_graph},
    {"layout", "IN.csv [options]", "Offsets for any set of buffers (id,lower,upper,size).", layout_options,
     run_layout},
    {"models", "", "The built-in models.", table_options, run_models},
    {"planners", "", "The planners.", table_options, run_planners},
    {"ops", "", "The operators.", table_options, run_ops},
};
enum { VERBS = sizeof verbs / sizeof *verbs, OPTION_VALUES = OPTION_LIMIT };

typedef bool row_function(int32_t index, neap_row *row);

static int print_table(const struct verb *verb, const char *const *values, row_function *row_at) {
  neap_row row;
  json_t *list = json_array();
  const bool json = has(verb, values, "--json");
  for (int32_t i = 0; row_at(i, &row); i++) {
    if (json)
      json_array_append_new(list, json_pack("{s:s, s:s, s:s*}", "name", row.name, "summary", row.summary,
                                            "source", row.source));
    else
      printf("%-28s %s%s%s%s\n", row.name, row.summary, row.source ? " (" : "", row.source ? row.source : "",
             row.source ? ")" : "");
  }
  const int result = json ? print_json(json_pack("{s:O}", verb->name, list)) : EXIT_DONE;
  json_decref(list);
  return result;
}

int run_models(const struct verb *verb, const char *const *values, const char *const *operands,
               int operand_count) {
  return operand_count > 0 ? usage_error(verb, "there is no use for '%s'", operands[0])
                           : print_table(verb, values, neap_model_at);
}
int run_planners(const struct verb *verb, const char *const *values, const char *const *operands,
                 int operand_count) {
  return operand_count > 0 ? usage_error(verb, "there is no use for '%s'", operands[0])
                           : print_table(verb, values, neap_planner_at);
}
int run_ops(const struct verb *verb, const char *const *values, const char *const *operands,
            int operand_count) {
  return operand_count > 0 ? usage_error(verb, "there is no use for '%s'", operands[0])
                           : print_table(verb, values, neap_operator_at);
}

static void print_help(void) {
  puts("neap trains neural networks inside a memory budget.\n");
  for (int i = 0; i < VERBS; i++) printf("  neap %-9s %s\n", verbs[i].name, verbs[i].summary);
  puts("\n`neap VERB --help` has the options of each.\n\n"
       "Exit status: 0 done; 1 something failed; 2 wrong usage; 3 the budget cannot be met; 4 the plan is "
       "not\n"
       "valid; 130 stopped by SIGINT, after a checkpoint where --out is given.\n\n"
       "For example:\n  neap train --model wrn-28-2 --data synthetic --budget 128MiB --steps 20");
}

int main(int count, char **arguments) {
  if (count < 2) return usage_error(NULL, "which verb? train, plan, show, ...");
  if (strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "-h") == 0 ||
      strcmp(arguments[1], "help") == 0) {
    print_help();
    return EXIT_DONE;
  }
  if (strcmp(arguments[1], "--version") == 0) {
    puts("neap " NEAP_VERSION);
    return EXIT_DONE;
  }
  for (int i = 0; i < VERBS; i++) {
    if (strcmp(verbs[i].name, arguments[1]) != 0) continue;
    const char *values[OPTION_VALUES] = {NULL}, *operands[OPERAND_LIMIT];
    int operand_count;
    bool help;
    if (!read_arguments(&verbs[i], count - 2, arguments + 2, values, operands, &operand_count, &help))
      return EXIT_USAGE;
    if (help) {
      print_verb_help(&verbs[i]);
      return EXIT_DONE;
    }
    return verbs[i].run(&verbs[i], values, operands, operand_count);
  }
  return usage_error(NULL, "there is no verb '%s'", arguments[1]);
}
