/* neap curve */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct settings {
  struct source source;
  const char *planners, *out;
  int64_t points;
  bool json;
};

const struct option curve_options[] = {
    SOURCE_OPTIONS(struct settings),
    {"--planner", "P,...", "planners by name, or auto (every planner)", OPTION_TEXT,
     offsetof(struct settings, planners), 0},
    {"--points", "N", "budgets for each planner (12)", OPTION_INTEGER, offsetof(struct settings, points), 2},
    {"-o", "FILE", "write .csv, .svg or .html, by its ending", OPTION_TEXT, offsetof(struct settings, out),
     0},
    {"--json", NULL, "one JSON object on standard output", OPTION_SWITCH, offsetof(struct settings, json), 0},
    {0},
};

enum { PLANNER_LIMIT = 32, POINT_LIMIT = 1000 };

struct curve {
  const char *planners[PLANNER_LIMIT];
  int planner_count;
  uint64_t keep_all, lower_bound;
  struct curve_point *points; /* what each planner can do, with plans that the curve owns */
  int64_t count;
  json_t *list; /* what each planner does with each budget */
};

/* ---- Planning ---- */

/* Takes the plan over. */
static void add_point(struct curve *curve, int series, neap_plan *plan) {
  neap_plan_info info;
  neap_plan_describe(plan, &info);
  curve->lower_bound = info.lower_bound_bytes;
  curve->points[curve->count++] = (struct curve_point){
      series, (double)plan_bytes(plan), info.base_cost > 0 ? info.cost / info.base_cost - 1 : 0, plan};
}

/* The cheapest plan of the planner so far; NULL: none. */
static const neap_plan *last_plan(const struct curve *curve, int series) {
  const struct curve_point *last = curve->count > 0 ? &curve->points[curve->count - 1] : NULL;
  return last != NULL && last->series == series ? last->plan : NULL;
}

static bool cheaper(const neap_plan *plan, const neap_plan *than) {
  neap_plan_info a, b;
  if (than == NULL) return true;
  neap_plan_describe(plan, &a);
  neap_plan_describe(than, &b);
  return a.cost < b.cost;
}

/* One budget. A plan for less is a plan for more: where the planner finds none, or none that is cheaper, it
 * has the one before. */
static neap_status trace_budget(const neap_step *step, int series, uint64_t budget, struct curve *curve) {
  neap_plan *plan = NULL;
  const neap_status status = neap_plan_make(step, budget, curve->planners[series], NULL, &plan);
  if (status != NEAP_OK && status != NEAP_OVER_BUDGET && status != NEAP_UNSUPPORTED) return status;
  if (plan != NULL && cheaper(plan, last_plan(curve, series)))
    add_point(curve, series, plan);
  else
    neap_plan_free(plan);
  const neap_plan *best = last_plan(curve, series);
  if (best == NULL) return NEAP_OK; /* not for such a graph, under any budget */
  return json_array_append_new(curve->list, plan_json(best, budget)) == 0 ? NEAP_OK : NEAP_OUT_OF_MEMORY;
}

/* From the least budget that the planner meets to keeping everything, in steps of equal ratio. */
static neap_status trace(const neap_step *step, int series, int64_t points, struct curve *curve) {
  neap_status status = trace_budget(step, series, NEAP_BUDGET_MIN, curve);
  const neap_plan *first = last_plan(curve, series);
  if (status != NEAP_OK || first == NULL) return status;
  const double least = (double)plan_bytes(first), ratio = (double)curve->keep_all / least;
  for (int64_t i = 1; status == NEAP_OK && i < points; i++) {
    uint64_t budget = (uint64_t)(least * pow(ratio, (double)i / (double)(points - 1)));
    if (i == points - 1) budget = curve->keep_all;
    if (budget > (uint64_t)least) status = trace_budget(step, series, budget, curve);
  }
  return status;
}

static neap_status measure_keep_all(const neap_step *step, struct curve *curve) {
  neap_plan *plan;
  const neap_status status = neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan);
  if (status != NEAP_OK) return status;
  curve->keep_all = plan_bytes(plan);
  neap_plan_free(plan);
  return NEAP_OK;
}

static neap_status trace_all(const neap_step *step, int64_t points, struct curve *curve) {
  neap_status status = measure_keep_all(step, curve);
  for (int i = 0; status == NEAP_OK && i < curve->planner_count; i++) status = trace(step, i, points, curve);
  return status;
}

/* ---- Output ---- */

static void print_csv(FILE *file, const struct curve *curve) {
  fprintf(file, "planner,peak_bytes,overhead\n");
  for (int64_t i = 0; i < curve->count; i++)
    fprintf(file, "%s,%.0f,%.6f\n", curve->planners[curve->points[i].series], curve->points[i].bytes,
            curve->points[i].overhead);
}

static void print_table(const struct curve *curve) {
  printf("%-16s %12s %16s %10s\n", "planner", "memory", "of keeping all", "overhead");
  for (int64_t i = 0; i < curve->count; i++) {
    const struct curve_point *p = &curve->points[i];
    printf("%-16s %12s %16s %9.1f%%\n", curve->planners[p->series], bytes_text((uint64_t)p->bytes).text,
           percent_text(p->bytes / (double)curve->keep_all).text, 100 * p->overhead);
  }
}

/* The file's text, by its ending; the caller frees it. */
static neap_status draw(const struct curve *curve, const neap_step *step, const char *ending, char **text,
                        size_t *length) {
  neap_step_info info;
  neap_step_describe(step, &info);
  const struct curve_picture picture = {.title = info.name,
                                        .series = curve->planners,
                                        .series_count = curve->planner_count,
                                        .points = curve->points,
                                        .count = curve->count,
                                        .lower_bound = (double)curve->lower_bound,
                                        .keep_all = (double)curve->keep_all};
  const struct page page = {.step = step, .curve = &picture};
  if (strcmp(ending, ".html") == 0) return draw_page(&page, text, length);
  if (strcmp(ending, ".svg") == 0) {
    *text = draw_curve(&picture, length);
    return *text != NULL ? NEAP_OK : NEAP_OUT_OF_MEMORY;
  }
  FILE *file = open_memstream(text, length);
  if (file == NULL) return NEAP_OUT_OF_MEMORY;
  print_csv(file, curve);
  return fclose(file) == 0 ? NEAP_OK : NEAP_OUT_OF_MEMORY;
}

static int write_curve(const struct curve *curve, const neap_step *step, const char *path) {
  char *text = NULL;
  size_t length = 0;
  int result = EXIT_FAILED;
  if (draw(curve, step, strrchr(path, '.'), &text, &length) == NEAP_OK)
    result = write_text_file(path, text, length);
  else
    fprintf(stderr, "neap: %s: out of memory\n", path);
  free(text);
  return result;
}

/* ---- The verb ---- */

static bool known_ending(const char *path) {
  const char *ending = strrchr(path, '.');
  return ending != NULL &&
         (strcmp(ending, ".csv") == 0 || strcmp(ending, ".svg") == 0 || strcmp(ending, ".html") == 0);
}

/* Splits `names`, in place, or takes every row of the table. */
static int list_planners(const struct verb *verb, char *names, struct curve *curve) {
  neap_row row;
  if (names == NULL)
    for (int32_t i = 0; curve->planner_count < PLANNER_LIMIT && neap_planner_at(i, &row); i++)
      curve->planners[curve->planner_count++] = row.name;
  for (char *rest = names, *name; (name = strsep(&rest, ",")) != NULL;) {
    if (!planner_exists(name))
      return report_usage(verb, "--planner %s: there is no such planner; see `neap planners`", name);
    if (curve->planner_count == PLANNER_LIMIT) return report_usage(verb, "--planner: too many planners");
    curve->planners[curve->planner_count++] = name;
  }
  return EXIT_DONE;
}

static int make_curve(const struct verb *verb, const struct settings *s, const neap_step *step,
                      struct curve *curve) {
  const neap_status status = trace_all(step, s->points, curve);
  if (status != NEAP_OK) return report_failure(verb, status);
  if (curve->count == 0) return report_failure(verb, NEAP_OVER_BUDGET); /* no planner takes such a graph */
  int result = EXIT_DONE;
  if (s->out != NULL) result = write_curve(curve, step, s->out);
  if (result != EXIT_DONE) return result;
  if (s->json) return print_json(json_pack("{s:O}", "points", curve->list));
  print_table(curve);
  return EXIT_DONE;
}

int run_curve(const struct verb *verb, int count, char **arguments) {
  struct settings s = {.source = SOURCE_DEFAULTS, .points = 12};
  struct operands operands;
  if (!read_arguments(verb, count, arguments, &s, &operands, NULL)) return EXIT_USAGE;
  if (operands.count > 1) return report_usage(verb, "%s: there is no use for it", operands.values[1]);
  if (s.points > POINT_LIMIT)
    return report_usage(verb, "--points %lld: at most %d", (long long)s.points, POINT_LIMIT);
  if (s.out != NULL && !known_ending(s.out))
    return report_usage(verb, "-o %s: its ending must be .csv, .svg or .html", s.out);
  char *names = s.planners != NULL ? strdup(s.planners) : NULL;
  struct curve curve = {.list = json_array()};
  neap_step *step = NULL;
  int result = list_planners(verb, names, &curve);
  if (result == EXIT_DONE) result = source_open(verb, &s.source, operands.values[0], &step);
  if (result == EXIT_DONE) {
    curve.points = calloc((size_t)(s.points * curve.planner_count), sizeof *curve.points);
    if (curve.points == NULL || curve.list == NULL) {
      fputs("neap: out of memory\n", stderr);
      result = EXIT_FAILED;
    } else {
      result = make_curve(verb, &s, step, &curve);
    }
  }
  neap_step_free(step);
  json_decref(curve.list);
  for (int64_t i = 0; i < curve.count; i++) neap_plan_free((neap_plan *)curve.points[i].plan);
  free(curve.points);
  free(names);
  return result;
}
