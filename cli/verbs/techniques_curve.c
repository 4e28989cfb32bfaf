/* neap curve --allow: memory against cost for each combination of techniques, in one picture. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/svg.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/source.h"
#include "shared/techniques.h"
#include "verbs/techniques_curve.h"

enum { COMBINATIONS = 1 << (TECHNIQUES - 1), USUAL_POINTS = 5 };

struct techniques_curve {
  const struct techniques *techniques;
  struct name names[COMBINATIONS];
  const char *series[COMBINATIONS];
  int series_count;
  struct curve_point *points; /* overhead: at first the cost of the whole step */
  int64_t count;
  double cheapest; /* cost of a step that keeps everything, of the combination where that is least */
  uint64_t keep_all;
};

/* One plan; its point, where it is cheaper than the one before, which needs less. */
static neap_status add_plan(struct techniques_curve *c, const neap_train_options *source,
                            const neap_step *step, uint64_t budget) {
  neap_plan *plan;
  neap_plan_info info;
  const neap_status status = source_plan(source, step, budget, &(neap_plan_options){0}, NULL, NULL, &plan);
  if (status == NEAP_OVER_BUDGET) return NEAP_OK;
  if (status != NEAP_OK) return status;
  neap_plan_describe(plan, &info);
  const double parts = source->micro_batch > 0 ? (double)(source->shape.batch / source->micro_batch) : 1;
  struct curve_point point = {
      .series = c->series_count, .bytes = (double)plan_bytes(plan), .overhead = info.cost * parts};
  const struct curve_point *last = c->count > 0 ? &c->points[c->count - 1] : NULL;
  if (last == NULL || last->series != point.series || point.overhead < last->overhead)
    c->points[c->count++] = point;
  if (c->cheapest == 0 || point.overhead < c->cheapest) c->cheapest = point.overhead;
  if (point.bytes > (double)c->keep_all) c->keep_all = (uint64_t)point.bytes;
  neap_plan_free(plan);
  return NEAP_OK;
}

/* Budgets from the least to keeping everything, in steps of equal ratio. */
static neap_status add_series(struct techniques_curve *c, unsigned taken, int64_t points) {
  const neap_train_options source = techniques_source(c->techniques, taken);
  neap_step *step = NULL;
  uint64_t everything = 0;
  const int64_t first = c->count;
  neap_status status = source_step(&source, &step);
  if (status == NEAP_OK) status = neap_step_keep_all_bytes(step, &everything);
  if (status == NEAP_OK) status = add_plan(c, &source, step, NEAP_BUDGET_MIN);
  const double least = c->count > first ? c->points[first].bytes : (double)everything;
  for (int64_t i = 1; status == NEAP_OK && i < points; i++) {
    const double share = (double)i / (double)(points - 1);
    const uint64_t budget = (uint64_t)(least * pow((double)everything / least, share));
    status = add_plan(c, &source, step, i == points - 1 ? NEAP_BUDGET_MAX : budget);
  }
  neap_step_free(step);
  c->names[c->series_count] = techniques_text(c->techniques, taken);
  c->series[c->series_count] = c->names[c->series_count].text;
  c->series_count++;
  return status;
}

static neap_status trace(struct techniques_curve *c, int64_t points) {
  for (int count = 0; count < TECHNIQUES; count++)
    for (unsigned taken = 0; taken < 1u << TECHNIQUES; taken++) {
      if ((taken & ~c->techniques->allowed) != 0 || __builtin_popcount(taken) != count) continue;
      const neap_status status = add_series(c, taken, points);
      if (status != NEAP_OK) return status;
    }
  for (int64_t i = 0; i < c->count; i++) c->points[i].overhead = c->points[i].overhead / c->cheapest - 1;
  return NEAP_OK;
}

/* ---- What is written and printed ---- */

static void write_csv(FILE *file, const struct techniques_curve *c) {
  fputs("combination,peak_bytes,overhead\n", file);
  for (int64_t i = 0; i < c->count; i++)
    fprintf(file, "%s,%.0f,%.6f\n", c->series[c->points[i].series], c->points[i].bytes,
            c->points[i].overhead);
}

static int write_file(const struct techniques_curve *c, const char *path) {
  char *text = NULL;
  size_t length = 0;
  if (has_ending(path, ".svg")) {
    const struct curve_picture picture = {.title = c->techniques->whole.model,
                                          .series = c->series,
                                          .series_count = c->series_count,
                                          .points = c->points,
                                          .count = c->count,
                                          .keep_all = (double)c->keep_all,
                                          .cost_label = "cost over the cheapest (%, square root)"};
    text = draw_curve(&picture, &length);
  } else {
    FILE *file = open_memstream(&text, &length);
    if (file != NULL) write_csv(file, c);
    if (file != NULL && fclose(file) != 0) length = 0;
  }
  if (text == NULL || length == 0) fprintf(stderr, "neap: %s: out of memory\n", path);
  const int result = text != NULL && length > 0 ? write_text_file(path, text, length) : EXIT_FAILED;
  free(text);
  return result;
}

static json_t *curve_json(const struct techniques_curve *c) {
  json_t *points = json_array();
  for (int64_t i = 0; i < c->count; i++)
    json_array_append_new(points, json_pack("{s:s, s:I, s:f}", "combination", c->series[c->points[i].series],
                                            "peak_bytes", (json_int_t)c->points[i].bytes, "overhead",
                                            c->points[i].overhead));
  return json_pack("{s:o}", "points", points);
}

static void print_table(const struct techniques_curve *c) {
  printf("overhead: share of the whole step's cost, above the cheapest step that keeps everything\n\n");
  printf("%-28s %12s %16s %10s\n", "combination", "memory", "share of the most", "overhead");
  for (int64_t i = 0; i < c->count; i++)
    printf("%-28s %12s %16s %9.1f%%\n", c->series[c->points[i].series],
           bytes_text((uint64_t)c->points[i].bytes).text,
           percent_text(c->points[i].bytes / (double)c->keep_all).text, 100 * c->points[i].overhead);
}

int curve_techniques(const struct verb *verb, const struct techniques *techniques, int64_t points,
                     const char *out, bool json) {
  struct techniques_curve c = {.techniques = techniques};
  if (points == 0) points = USUAL_POINTS;
  if (out != NULL && has_ending(out, ".html"))
    return report_usage(verb, "-o %s: with --allow the name must end in .csv or .svg", out);
  c.points = calloc((size_t)points * COMBINATIONS, sizeof *c.points);
  neap_status status = c.points != NULL ? trace(&c, points) : no_memory();
  int result = status == NEAP_OK ? EXIT_DONE : report_failure(verb, status);
  if (result == EXIT_DONE && out != NULL) result = write_file(&c, out);
  if (result == EXIT_DONE && json) result = print_json(curve_json(&c));
  if (result == EXIT_DONE && !json && out != standard_output) print_table(&c);
  free(c.points);
  return result;
}
