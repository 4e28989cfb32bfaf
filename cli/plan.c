/* neap plan, neap curve */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define MODEL_OPTIONS                                                                                        \
  {"--model", "NAME", "plan a built-in model's training step (see `neap models`)"},                          \
      {"--batch", "N", "its batch size"}, {"--optimizer", "sgd|adamw", "its optimizer (sgd)"},               \
      {"--momentum", "X", "its momentum (0.9)"},                                                             \
      {"--conv", "auto|direct|winograd", "its convolution algorithm (auto)"}, {                              \
    "--threads", "N", "threads that it will run on (all cores)"                                              \
  }

const struct option_row plan_options[] = {
    MODEL_OPTIONS,
    {"--budget", "B", "bytes training may use: 96MiB, 0.5GB, 80%, min or max (max)"},
    {"--planner", "P", "auto, all, or a name from `neap planners` (auto)"},
    {"-o", "PLAN.json", "write the plan"},
    {"--json", NULL, "one JSON object on standard output"},
    {0},
};

const struct option_row curve_options[] = {
    MODEL_OPTIONS,
    {"--planner", "P,...", "planners by name (auto)"},
    {"--points", "N", "budgets between the least and keeping everything (12)"},
    {"-o", "FILE", "write the curve as .csv or .svg"},
    {"--json", NULL, "one JSON object on standard output"},
    {0},
};

static uint64_t peak_of(const neap_plan *plan) {
  neap_plan_info info;
  neap_plan_describe(plan, &info);
  return info.peak_bytes;
}

static neap_status keep_all_bytes(const neap_step *step, uint64_t *bytes) {
  neap_plan *plan;
  const neap_status status = neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan);
  if (status != NEAP_OK) return status;
  *bytes = peak_of(plan);
  neap_plan_free(plan);
  return NEAP_OK;
}

static void print_heading(const neap_step *step) {
  neap_step_info info;
  neap_step_describe(step, &info);
  printf("%s: %d nodes, %d tensors, %s resident\n", info.name, info.nodes, info.tensors,
         bytes_text(info.resident_bytes));
  printf("%-14s %12s %12s %10s %11s %9s\n", "planner", "peak", "arena", "overhead", "recomputed", "seconds");
}

static void print_row(const neap_plan *plan, const char *planner, uint64_t smallest) {
  if (plan == NULL) {
    printf("%-14s cannot meet it", planner);
    if (smallest > 0)
      printf("; the smallest budget is %s (%llu bytes)", bytes_text(smallest), (unsigned long long)smallest);
    putchar('\n');
    return;
  }
  neap_plan_info p;
  neap_plan_describe(plan, &p);
  printf("%-14s %12s %12s %9.2f%% %11lld %9.2f\n", p.planner, bytes_text(p.peak_bytes),
         bytes_text(p.arena_bytes), 100 * (p.cost / (p.base_cost > 0 ? p.base_cost : 1) - 1),
         (long long)p.recomputed, p.seconds);
}

/* Every row of the planner table, each on its own. */
static int plan_all(const neap_step *step, uint64_t budget, bool json) {
  json_t *list = json_array();
  neap_row row;
  if (!json) print_heading(step);
  bool any = false;
  for (int32_t i = 0; neap_planner_at(i, &row); i++) {
    neap_plan *plan = NULL;
    uint64_t smallest = 0;
    const neap_status status = neap_plan_make(step, budget, row.name, &smallest, &plan);
    if (status != NEAP_OK && status != NEAP_OVER_BUDGET) {
      json_decref(list);
      return report_failure(status);
    }
    any = any || plan != NULL;
    if (json)
      json_array_append_new(list, plan_json(step, plan, row.name, budget, smallest, 0));
    else
      print_row(plan, row.name, smallest);
    neap_plan_free(plan);
  }
  if (json) print_json(json_pack("{s:O}", "plans", list));
  json_decref(list);
  return any ? EXIT_DONE : EXIT_OVER_BUDGET;
}

static int plan_one(const struct step_source *source, const neap_step *step, uint64_t budget,
                    const char *planner, const char *path, bool json) {
  neap_plan *plan = NULL;
  uint64_t smallest = 0;
  neap_status status = neap_plan_make(step, budget, planner, &smallest, &plan);
  if (status == NEAP_OVER_BUDGET) {
    const int64_t batch = find_largest_batch(source, budget, planner);
    if (json) print_json(plan_json(step, NULL, planner, budget, smallest, batch));
    fprintf(stderr, "neap: the budget of %s cannot be met.\n  The smallest that can: %s (--budget %llu)\n",
            bytes_text(budget), bytes_text(smallest), (unsigned long long)smallest);
    if (source->model != NULL && batch > 0)
      fprintf(stderr, "  The largest batch that fits it: --batch %lld\n", (long long)batch);
    if (source->model != NULL && batch == 0) fprintf(stderr, "  No batch fits it.\n");
    return EXIT_OVER_BUDGET;
  }
  if (status == NEAP_OK && path != NULL) status = neap_plan_write(plan, path);
  int result = EXIT_DONE;
  if (status != NEAP_OK) {
    result = report_failure(status);
  } else if (json) {
    result = print_json(plan_json(step, plan, planner, budget, 0, 0));
  } else {
    print_heading(step);
    print_row(plan, planner, 0);
  }
  neap_plan_free(plan);
  return result;
}

int run_plan(const struct verb *verb, const char *const *values, const char *const *operands,
             int operand_count) {
  struct step_source source;
  uint64_t budget;
  double fraction;
  if (!read_step_source(verb, values, operands, operand_count, &source) ||
      !budget_value(verb, values, &budget, &fraction))
    return EXIT_USAGE;
  const char *planner = value_of(verb, values, "--planner"), *path = value_of(verb, values, "-o");
  if (planner == NULL) planner = "auto";
  if (path != NULL && strcmp(planner, "all") == 0)
    return usage_error(verb, "-o takes one plan: name a planner");
  neap_step *step;
  neap_status status = load_step(&source, &step);
  if (status != NEAP_OK) return report_failure(status);
  if (fraction > 0) {
    status = keep_all_bytes(step, &budget);
    budget = (uint64_t)(fraction * (double)budget);
  }
  const bool json = has(verb, values, "--json");
  const int result = status != NEAP_OK             ? report_failure(status)
                     : strcmp(planner, "all") == 0 ? plan_all(step, budget, json)
                                                   : plan_one(&source, step, budget, planner, path, json);
  neap_step_free(step);
  return result;
}

/* ---- The trade-off ---- */

enum { POINT_LIMIT = 400, PLANNER_LIMIT = 8 };

struct curve {
  struct curve_point points[POINT_LIMIT];
  int count;
  json_t *list;
  uint64_t keep_all;
};

/* Budgets from the least that the planner meets up to keeping everything, evenly in ratio. */
static neap_status trace(const neap_step *step, const char *planner, int64_t points, struct curve *curve) {
  neap_plan *least;
  neap_status status = neap_plan_make(step, NEAP_BUDGET_MIN, planner, NULL, &least);
  if (status != NEAP_OK) return status;
  const double low = (double)peak_of(least), high = (double)curve->keep_all;
  neap_plan *plan = least;
  for (int64_t i = 0; status == NEAP_OK && i < points && curve->count < POINT_LIMIT; i++) {
    const double share = points > 1 ? (double)i / (double)(points - 1) : 1;
    const uint64_t budget = (uint64_t)(low + (high - low) * share * share);
    if (i > 0)
      status = neap_plan_make(step, i == points - 1 ? curve->keep_all : budget, planner, NULL, &plan);
    if (status == NEAP_OVER_BUDGET) {
      status = NEAP_OK;
      continue;
    }
    if (status != NEAP_OK) break;
    neap_plan_info info;
    neap_plan_describe(plan, &info);
    curve->points[curve->count++] =
        (struct curve_point){planner, (double)info.peak_bytes, info.cost / info.base_cost - 1};
    json_array_append_new(curve->list, plan_json(step, plan, planner, budget, 0, 0));
    neap_plan_free(plan);
    plan = NULL;
    fprintf(stderr, "\r%s: %lld of %lld budgets", planner, (long long)i + 1, (long long)points);
  }
  fputc('\n', stderr);
  return status;
}

static int write_csv(const char *path, const struct curve *curve) {
  FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
  bool good = file != NULL && fprintf(file, "planner,peak_bytes,overhead\n") > 0;
  for (int i = 0; good && i < curve->count; i++)
    good = fprintf(file, "%s,%.0f,%.6f\n", curve->points[i].planner, curve->points[i].bytes,
                   curve->points[i].overhead) > 0;
  if (file != NULL && file != stdout) good = fclose(file) == 0 && good;
  if (good) return EXIT_DONE;
  fprintf(stderr, "neap: %s could not be written\n", path);
  if (file != NULL && file != stdout) remove(path);
  return EXIT_FAILED;
}

static int finish_curve(const neap_step *step, const struct curve *curve, const char *path, bool json,
                        double lower_bound) {
  neap_step_info info;
  neap_step_describe(step, &info);
  int result = EXIT_DONE;
  const char *ending = path != NULL ? strrchr(path, '.') : NULL;
  if (ending != NULL && strcmp(ending, ".svg") == 0) {
    const neap_status status =
        draw_curve(path, info.name, curve->points, curve->count, lower_bound, (double)curve->keep_all);
    if (status != NEAP_OK) result = report_failure(status);
  } else if (path != NULL) {
    result = write_csv(path, curve);
  }
  if (json) return print_json(json_pack("{s:O}", "points", curve->list));
  if (path == NULL) return write_csv("-", curve);
  return result;
}

int run_curve(const struct verb *verb, const char *const *values, const char *const *operands,
              int operand_count) {
  struct step_source source;
  int64_t points = 12;
  if (!read_step_source(verb, values, operands, operand_count, &source) ||
      !integer_value(verb, values, "--points", 2, &points))
    return EXIT_USAGE;
  char names[256];
  const char *given = value_of(verb, values, "--planner");
  snprintf(names, sizeof names, "%s", given != NULL ? given : "auto");
  neap_step *step;
  struct curve *curve = calloc(1, sizeof *curve);
  if (curve == NULL) return EXIT_FAILED;
  neap_status status = load_step(&source, &step);
  if (status != NEAP_OK) {
    free(curve);
    return report_failure(status);
  }
  curve->list = json_array();
  status = keep_all_bytes(step, &curve->keep_all);
  double lower_bound = 0;
  for (char *save = NULL, *name = strtok_r(names, ",", &save); status == NEAP_OK && name != NULL;
       name = strtok_r(NULL, ",", &save))
    status = trace(step, name, points, curve);
  if (status == NEAP_OK && json_array_size(curve->list) > 0)
    lower_bound =
        (double)json_integer_value(json_object_get(json_array_get(curve->list, 0), "lower_bound_bytes"));
  const int result = status == NEAP_OK ? finish_curve(step, curve, value_of(verb, values, "-o"),
                                                      has(verb, values, "--json"), lower_bound)
                                       : report_failure(status);
  json_decref(curve->list);
  free(curve);
  neap_step_free(step);
  return result;
}
