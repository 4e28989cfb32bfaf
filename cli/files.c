/* neap show, check, graph, layout */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

const struct option_row show_options[] = {
    {"-o", "FILE.svg", "draw memory over the step, stacked by kind"},
    {"--budget", "B", "without a plan file: plan for this budget (max)"},
    {"--json", NULL, "one JSON object on standard output"},
    {0},
};
const struct option_row check_options[] = {{"--json", NULL, "one JSON object on standard output"}, {0}};
const struct option_row graph_options[] = {
    {"--model", "NAME", "a built-in model (see `neap models`)"},
    {"--batch", "N", "its batch size"},
    {"--optimizer", "sgd|adamw", "its optimizer (sgd)"},
    {"--momentum", "X", "its momentum (0.9)"},
    {"--conv", "auto|direct|winograd", "its convolution algorithm (auto)"},
    {"--threads", "N", "threads that it will run on (all cores)"},
    {"-o", "GRAPH.json", "where to write it"},
    {0},
};
const struct option_row layout_options[] = {
    {"-o", "OUT.csv", "write the buffers with their offsets"},
    {"--capacity", "BYTES", "decide whether they fit; without it: the least height found"},
    {"--json", NULL, "one JSON object on standard output"},
    {0},
};

const char *const kind_names[NEAP_KIND_COUNT] = {
    "parameters", "optimizer, statistics", "inputs", "gradients", "kept", "recomputed", "workspace"};

/* ---- show ---- */

static int64_t peak_position(const uint64_t *live, int64_t positions, uint64_t *most) {
  int64_t at = 0;
  *most = 0;
  for (int64_t p = 0; p < positions; p++) {
    uint64_t sum = 0;
    for (int k = 0; k < NEAP_KIND_COUNT; k++) sum += live[p * NEAP_KIND_COUNT + k];
    if (sum > *most) *most = sum, at = p;
  }
  return at;
}

static int print_profile(const neap_step *step, const neap_plan *plan, const uint64_t *live, bool json) {
  int64_t length;
  const int32_t *schedule = neap_plan_schedule(plan, &length);
  uint64_t most;
  const int64_t at = peak_position(live, length, &most);
  const char *name = "", *op = "";
  if (length > 0) neap_step_node(step, schedule[at], &name, &op);
  neap_plan_info info;
  neap_plan_describe(plan, &info);
  if (json) {
    json_t *kinds = json_object();
    for (int k = 0; k < NEAP_KIND_COUNT; k++)
      json_object_set_new(kinds, kind_names[k],
                          json_integer(length > 0 ? (json_int_t)live[at * NEAP_KIND_COUNT + k] : 0));
    return print_json(json_pack("{s:s, s:s, s:I, s:I, s:s, s:o}", "graph", info.graph, "planner",
                                info.planner, "peak_bytes", (json_int_t)most, "position", (json_int_t)at,
                                "node", name, "at_peak", kinds));
  }
  printf("%s, plan %s: %lld positions, %lld of them recomputation (%.1f %% more time)\n", info.graph,
         info.planner, (long long)length, (long long)info.recomputed,
         info.base_cost > 0 ? 100 * (info.cost / info.base_cost - 1) : 0.0);
  printf("peak %s at position %lld: %s '%s'\n", bytes_text(most), (long long)at, op, name);
  for (int k = 0; k < NEAP_KIND_COUNT && length > 0; k++)
    printf("  %-24s %12s  %5.1f %%\n", kind_names[k], bytes_text(live[at * NEAP_KIND_COUNT + k]),
           most > 0 ? 100 * (double)live[at * NEAP_KIND_COUNT + k] / (double)most : 0);
  return EXIT_DONE;
}

static neap_status load_plan(const struct verb *verb, const char *const *values, const neap_step *step,
                             const char *path, neap_plan **plan) {
  if (path != NULL) {
    neap_check_result result;
    const neap_status status = neap_plan_read(path, plan);
    if (status != NEAP_OK) return status;
    return neap_plan_check(step, *plan, &result);
  }
  uint64_t budget, keep_all;
  double fraction;
  if (!budget_value(verb, values, &budget, &fraction)) return NEAP_INVALID_ARGUMENT;
  neap_status status = neap_plan_make(step, fraction > 0 ? NEAP_BUDGET_MAX : budget, "auto", NULL, plan);
  if (status != NEAP_OK || fraction <= 0) return status;
  neap_plan_info info;
  neap_plan_describe(*plan, &info);
  keep_all = info.peak_bytes;
  neap_plan_free(*plan);
  *plan = NULL;
  return neap_plan_make(step, (uint64_t)(fraction * (double)keep_all), "auto", NULL, plan);
}

int run_show(const struct verb *verb, const char *const *values, const char *const *operands,
             int operand_count) {
  if (operand_count < 1 || operand_count > 2)
    return usage_error(verb, "give a graph file, and a plan file if there is one");
  neap_step *step;
  neap_plan *plan = NULL;
  neap_status status = neap_step_read(operands[0], &step);
  if (status != NEAP_OK) return report_failure(status);
  status = load_plan(verb, values, step, operand_count > 1 ? operands[1] : NULL, &plan);
  int64_t length = 0;
  uint64_t *live = NULL;
  int result;
  if (status == NEAP_OK) {
    neap_plan_schedule(plan, &length);
    live = calloc((size_t)length * NEAP_KIND_COUNT + 1, sizeof *live);
    if (live != NULL) status = neap_plan_profile(step, plan, live);
  }
  const char *path = value_of(verb, values, "-o");
  if (status == NEAP_OK && live != NULL && path != NULL) {
    neap_plan_info info;
    char title[160];
    neap_plan_describe(plan, &info);
    snprintf(title, sizeof title, "%s, plan %s: peak %s, %.1f %% more time", info.graph, info.planner,
             bytes_text(info.peak_bytes), info.base_cost > 0 ? 100 * (info.cost / info.base_cost - 1) : 0.0);
    status = draw_memory(path, title, live, length, 0);
  }
  result = status != NEAP_OK || live == NULL ? report_failure(status)
                                             : print_profile(step, plan, live, has(verb, values, "--json"));
  free(live);
  neap_plan_free(plan);
  neap_step_free(step);
  return result;
}

/* ---- check ---- */

int run_check(const struct verb *verb, const char *const *values, const char *const *operands,
              int operand_count) {
  if (operand_count != 2) return usage_error(verb, "give a graph file and a plan file");
  neap_step *step;
  neap_plan *plan = NULL;
  neap_status status = neap_step_read(operands[0], &step);
  if (status != NEAP_OK) return report_failure(status);
  status = neap_plan_read(operands[1], &plan);
  int result = EXIT_FAILED;
  if (status != NEAP_OK) {
    result = report_failure(status);
  } else {
    neap_check_result r;
    status = neap_plan_check(step, plan, &r);
    result = status == NEAP_OK ? EXIT_DONE : status == NEAP_INVALID_PLAN ? EXIT_INVALID : EXIT_FAILED;
    if (has(verb, values, "--json"))
      print_json(json_pack("{s:b, s:I, s:f, s:s, s:I}", "valid", (int)r.valid, "peak_bytes",
                           (json_int_t)r.peak_bytes, "cost", r.cost, "reason", r.reason, "position",
                           (json_int_t)r.position));
    else if (r.valid)
      printf("valid: peak %s (%llu bytes), cost %g\n", bytes_text(r.peak_bytes),
             (unsigned long long)r.peak_bytes, r.cost);
    else
      report_failure(status);
  }
  neap_plan_free(plan);
  neap_step_free(step);
  return result;
}

/* ---- graph ---- */

int run_graph(const struct verb *verb, const char *const *values, const char *const *operands,
              int operand_count) {
  struct step_source source;
  if (!read_step_source(verb, values, operands, operand_count, &source)) return EXIT_USAGE;
  const char *path = value_of(verb, values, "-o");
  if (path == NULL || source.model == NULL)
    return usage_error(verb, "%s is missing", path == NULL ? "-o" : "--model");
  neap_step *step;
  neap_status status = load_step(&source, &step);
  if (status != NEAP_OK) return report_failure(status);
  status = neap_step_write(step, path);
  neap_step_info info;
  neap_step_describe(step, &info);
  if (status == NEAP_OK)
    fprintf(stderr, "%s: %s, %d nodes, %d tensors\n", path, info.name, info.nodes, info.tensors);
  neap_step_free(step);
  return status == NEAP_OK ? EXIT_DONE : report_failure(status);
}

/* ---- layout ---- */

int run_layout(const struct verb *verb, const char *const *values, const char *const *operands,
               int operand_count) {
  if (operand_count != 1) return usage_error(verb, "give one CSV file");
  uint64_t capacity = 0;
  double fraction = 0, seconds;
  const char *text = value_of(verb, values, "--capacity"), *path = value_of(verb, values, "-o");
  if (text != NULL && (neap_budget_parse(text, &capacity, &fraction) != NEAP_OK || fraction > 0 ||
                       capacity == 0 || capacity == NEAP_BUDGET_MAX))
    return usage_error(verb, "--capacity %s: must be a number of bytes", text);
  neap_buffer *buffers;
  int64_t count;
  neap_status status = neap_layout_read_csv(operands[0], &buffers, &count);
  if (status != NEAP_OK) return report_failure(status);
  neap_layout_result r = {0};
  const clock_t start = clock();
  status = neap_layout_solve(buffers, count, capacity, &r);
  seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  const bool solved = status == NEAP_OK || status == NEAP_OVER_BUDGET;
  int result = status == NEAP_OK ? EXIT_DONE : report_failure(status);
  if (solved && path != NULL && status == NEAP_OK) {
    status = neap_layout_write_csv(path, operands[0], buffers, count);
    if (status != NEAP_OK) result = report_failure(status);
  }
  if (solved && has(verb, values, "--json"))
    print_json(json_pack("{s:I, s:I, s:I, s:f, s:b}", "buffers", (json_int_t)count, "height",
                         (json_int_t)r.height, "lower_bound", (json_int_t)r.lower_bound, "seconds", seconds,
                         "valid", result == EXIT_DONE));
  else if (solved)
    printf("%lld buffers, height %llu, lower bound %llu%s, %s\n", (long long)count,
           (unsigned long long)r.height, (unsigned long long)r.lower_bound,
           r.proven_optimal ? " (optimal)" : "", duration_text(seconds));
  free(buffers);
  return result;
}
