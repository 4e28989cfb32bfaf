/* What the verbs of the command share. The command uses neap.h and jansson alone. */
#ifndef NEAP_CLI_CLI_H
#define NEAP_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "neap.h"

/* Exit statuses (docs: `neap --help`). */
enum {
  EXIT_DONE = 0,
  EXIT_FAILED = 1,
  EXIT_USAGE = 2,
  EXIT_OVER_BUDGET = 3,
  EXIT_INVALID = 4,
  EXIT_INTERRUPTED = 130
};

/* ---- Options (options.c) ---- */

struct option_row {
  const char *name;  /* "--budget" or "-o" */
  const char *value; /* what stands for its value in the help; NULL: a switch */
  const char *help;
};

enum { OPTION_LIMIT = 40, OPERAND_LIMIT = 4 };

struct verb {
  const char *name, *usage, *summary;
  const struct option_row *options; /* ends with a NULL name */
  int (*run)(const struct verb *verb, const char *const *values, const char *const *operands,
             int operand_count);
};

/* Reads the arguments of a verb: values[i] is what was given for options[i], NULL where nothing was, "" for a
 * switch. Returns false after a message on standard error; `*help` is set for --help. */
bool read_arguments(const struct verb *verb, int count, char **arguments, const char **values,
                    const char **operands, int *operand_count, bool *help);
void print_verb_help(const struct verb *verb);

/* The value of an option by name; NULL when it was not given. */
const char *value_of(const struct verb *verb, const char *const *values, const char *name);
bool has(const struct verb *verb, const char *const *values, const char *name);

/* Values of a type; false after a message. A missing option leaves *out as it is. */
bool integer_value(const struct verb *verb, const char *const *values, const char *name, int64_t least,
                   int64_t *out);
bool number_value(const struct verb *verb, const char *const *values, const char *name, double least,
                  double *out);
/* One of the words, separated by |; *out is its index. */
bool word_value(const struct verb *verb, const char *const *values, const char *name, const char *words,
                int *out);
bool budget_value(const struct verb *verb, const char *const *values, uint64_t *bytes, double *fraction);

int usage_error(const struct verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Output (output.c) ---- */

/* Prints the library's last message; returns the exit status for `status`. */
int report_failure(neap_status status);

/* "96.0 MiB", "1.2 s", into a ring of buffers. */
const char *bytes_text(uint64_t bytes);
const char *duration_text(double seconds);

/* Prints one JSON object on standard output and frees it. */
int print_json(json_t *object);

/* The JSON object of a plan (a row of `neap plan --json`). `plan` NULL: not feasible. */
json_t *plan_json(const neap_step *step, const neap_plan *plan, const char *planner, uint64_t budget,
                  uint64_t smallest, int64_t largest_batch);

/* ---- Steps from the command line (step_source.c) ---- */

/* The step of a --model (with --batch) or of a graph file. `session` takes the options that lowering hangs
 * on. */
struct step_source {
  const char *model, *file;
  neap_model_options shape;
  neap_session_options session;
};
bool read_step_source(const struct verb *verb, const char *const *values, const char *const *operands,
                      int operand_count, struct step_source *source);
neap_status load_step(const struct step_source *source, neap_step **step);
/* The largest batch whose step fits the budget; 0: none, or a graph file. */
int64_t find_largest_batch(const struct step_source *source, uint64_t budget, const char *planner);

/* ---- Verbs ---- */

typedef int verb_function(const struct verb *verb, const char *const *values, const char *const *operands,
                          int operand_count);
verb_function run_train, run_plan, run_curve, run_show, run_check, run_graph, run_layout, run_models,
    run_planners, run_ops;
extern const struct option_row train_options[], plan_options[], curve_options[], show_options[],
    check_options[], graph_options[], layout_options[], table_options[];

/* ---- Pictures (svg.c) ---- */

struct curve_point {
  const char *planner;
  double bytes, overhead;
};
/* Memory over the step, stacked by kind; `live` as neap_plan_profile gives it. `budget` 0: no line. */
neap_status draw_memory(const char *path, const char *title, const uint64_t *live, int64_t positions,
                        uint64_t budget);
/* Memory against overhead for several planners. */
neap_status draw_curve(const char *path, const char *title, const struct curve_point *points, int count,
                       double lower_bound, double keep_all);
extern const char *const kind_names[NEAP_KIND_COUNT];

#endif
