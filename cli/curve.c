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
  struct curve_point *points; /* POINT_LIMIT for each planner */
  int64_t count;
  json_t *list;
};

/* ---- Planning ---- */

static bool add_point(struct curve *curve, int series, const neap_plan *plan, uint64_t budget) {
  neap_plan_info info;
  neap_plan_describe(plan, &info);
  curve->lower_bound = info.lower_bound_bytes;
  const struct curve_point point = {series, (double)plan_bytes(plan), info.cost / info.base_cost - 1};
  const struct curve_point *last = curve->count > 0 ? &curve->points[curve->count - 1] : NULL;
  /* A plan for less is a plan for more: one that costs no less adds nothing. */
  if (last != NULL && last->series == series && last->overhead <= point.overhead) return true;
  curve->points[curve->count++] = point;
  return json_array_append_new(curve->list, plan_json(plan, budget)) == 0;
}

/* From the least budget that the planner meets to keeping everything, in steps of equal ratio. */
static neap_status trace(const neap_step *step, int series, int64_t points, struct curve *curve) {
  const char *planner = curve->planners[series];
  double least = 0;
  for (int64_t i = 0; i < points; i++) {
    const double share = (double)i / (double)(points - 1);
    uint64_t budget = NEAP_BUDGET_MIN;
    if (i > 0) budget = (uint64_t)(least * pow((double)curve->keep_all / least, share));
    if (i == points - 1) budget = curve->keep_all;
    neap_plan *plan;
    const neap_status status = neap_plan_make(step, budget, planner, NULL, &plan);
    if (status == NEAP_OVER_BUDGET) continue; /* a heuristic may miss what it met with less */
    if (status != NEAP_OK) return status;
    if (i == 0) least = (double)plan_bytes(plan);
    const bool added = add_point(curve, series, plan, budget);
    neap_plan_free(plan);
    if (!added) return NEAP_OUT_OF_MEMORY;
  }
  return NEAP_OK;
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

static void print_page(FILE *file, const struct curve *curve, const char *title, const char *drawing) {
  fprintf(
      file,
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n"
      "<style>body{font:14px sans-serif;margin:2em;max-width:62em}td,th{padding:.15em 1em;text-align:right}"
      "td:first-child,th:first-child{text-align:left}</style></head><body>\n%s"
      "<table><tr><th>planner</th><th>memory</th><th>overhead</th></tr>\n",
      title, drawing);
  for (int64_t i = 0; i < curve->count; i++)
    fprintf(file, "<tr><td>%s</td><td>%s</td><td>%.1f %%</td></tr>\n",
            curve->planners[curve->points[i].series], bytes_text((uint64_t)curve->points[i].bytes).text,
            100 * curve->points[i].overhead);
  fputs("</table></body></html>\n", file);
}

static void print_table(const struct curve *curve) {
  printf("%-16s %12s %16s %10s\n", "planner", "memory", "of keeping all", "overhead");
  for (int64_t i = 0; i < curve->count; i++) {
    const struct curve_point *p = &curve->points[i];
    printf("%-16s %12s %16s %9.1f%%\n", curve->planners[p->series], bytes_text((uint64_t)p->bytes).text,
           percent_text(p->bytes / (double)curve->keep_all).text, 100 * p->overhead);
  }
}

static int write_curve(const struct curve *curve, const neap_step *step, const char *path) {
  neap_step_info info;
  neap_step_describe(step, &info);
  const struct curve_picture picture = {.title = info.name,
                                        .series = curve->planners,
                                        .series_count = curve->planner_count,
                                        .points = curve->points,
                                        .count = curve->count,
                                        .lower_bound = (double)curve->lower_bound};
  const char *ending = strrchr(path, '.');
  char *text = NULL;
  size_t length = 0;
  char *drawing = draw_curve(&picture, &length);
  FILE *file = drawing != NULL ? open_memstream(&text, &length) : NULL;
  if (file != NULL) {
    if (strcmp(ending, ".svg") == 0)
      fputs(drawing, file);
    else if (strcmp(ending, ".csv") == 0)
      print_csv(file, curve);
    else
      print_page(file, curve, info.name, drawing);
  }
  int result = EXIT_FAILED;
  if (file == NULL || fclose(file) != 0)
    fprintf(stderr, "neap: %s: out of memory\n", path);
  else
    result = write_text_file(path, text, length);
  free(drawing);
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
  free(curve.points);
  free(names);
  return result;
}
