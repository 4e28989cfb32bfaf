/* neap curve */
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/page.h"
#include "pictures/svg.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/source.h"
#include "shared/techniques.h"
#include "shared/watch.h"
#include "verbs/techniques_curve.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *planners, *out;
  int64_t points;
};

enum { POINT_LIMIT = 1000 };

const neap_setting curve_options[] = {
    {"planner", "P,...", "several; auto for large steps",
     "planners by name, or auto; all: every planner that auto tries", .kind = NEAP_SETTING_TEXT,
     .offset = offsetof(struct settings, planners)},
    {"points", "N", "12, or as many as fit in a minute", "number of budgets for each planner",
     .kind = NEAP_SETTING_INTEGER, .offset = offsetof(struct settings, points), .least = 2,
     .below = POINT_LIMIT + 1},
    {"o", "FILE", .help = "write a .csv, .svg or .html file, by its ending", .kind = NEAP_SETTING_TEXT,
     .offset = offsetof(struct settings, out), .flags = NEAP_SETTING_PATH},
    {0},
};

enum { PLANNER_LIMIT = 32, POINTS = 12 };

/* A step of more nodes is planned for seconds, and its least budget for more: without other wishes one
 * planner is asked, for LARGE_SECONDS at a time. */
enum { LARGE_STEP = 2000, LARGE_SECONDS = 3 };

/* The seconds after which a curve whose number of points was left open gets no further ones. */
static const double patience = 45;

/* A planner's answer for a budget. */
struct answer {
  uint64_t budget; /* 0: it was not asked */
  neap_plan *plan; /* NULL: none */
  neap_step *step; /* that it is for, where that is a variant */
};

struct curve {
  const neap_train_options *source;
  const char *planners[PLANNER_LIMIT];
  int planner_count;
  uint64_t keep_all, lower_bound;
  struct answer *answers; /* [planner_count][budgets], budgets rising */
  int64_t budgets;
  struct curve_point *points; /* what each planner can do: the answers that no smaller budget beats */
  int64_t count;
  json_t *list; /* what each planner does with each budget */
  struct watch *watch;
  double plan_seconds; /* for a plan; 0: a fixed effort */
  double deadline;     /* as patience has it; infinite: all budgets are wanted */
};

/* ---- Planning ---- */

static struct answer *answer_of(const struct curve *curve, int series, int64_t index) {
  return &curve->answers[series * curve->budgets + index];
}

static neap_status ask(const neap_step *step, int series, uint64_t budget, struct curve *curve,
                       struct answer *answer) {
  answer->budget = budget;
  const struct plan_request request = {budget, curve->planners[series], curve->plan_seconds};
  const neap_status status =
      watch_plan(curve->watch, curve->source, step, &request, NULL, &answer->step, &answer->plan);
  return status == NEAP_OVER_BUDGET || status == NEAP_UNSUPPORTED ? NEAP_OK : status;
}

/* The least budget that the planner meets; it stays without a plan where it has none for such a graph. */
static neap_status ask_least(const neap_step *step, int series, struct curve *curve) {
  struct answer *answer = answer_of(curve, series, 0);
  const neap_status status = ask(step, series, NEAP_BUDGET_MIN, curve, answer);
  if (status == NEAP_OK && answer->plan != NULL) answer->budget = plan_bytes(answer->plan);
  return status;
}

/* Budget `index` of those from its least to keeping everything, in steps of equal ratio. */
static neap_status ask_between(const neap_step *step, int series, int64_t index, struct curve *curve) {
  const struct answer *least = answer_of(curve, series, 0);
  if (least->plan == NULL) return NEAP_OK;
  const double ratio = (double)curve->keep_all / (double)least->budget;
  const double share = (double)index / (double)(curve->budgets - 1);
  const uint64_t budget =
      index == curve->budgets - 1 ? curve->keep_all : (uint64_t)((double)least->budget * pow(ratio, share));
  if (budget <= least->budget) return NEAP_OK;
  return ask(step, series, budget, curve, answer_of(curve, series, index));
}

static neap_status ask_each(const neap_step *step, int64_t index, struct curve *curve) {
  neap_status status = NEAP_OK;
  for (int i = 0; status == NEAP_OK && i < curve->planner_count; i++)
    status = index == 0 ? ask_least(step, i, curve) : ask_between(step, i, index, curve);
  return status;
}

/* Both ends, and between them ever finer: index by index with fewer and fewer factors of 2. One budget
 * between the ends is asked in any case. */
static neap_status ask_all(const neap_step *step, struct curve *curve) {
  const int64_t last = curve->budgets - 1;
  neap_status status = ask_each(step, 0, curve);
  if (status == NEAP_OK) status = ask_each(step, last, curve);
  int64_t stride = 1;
  while (2 * stride < last) stride *= 2;
  bool late = false;
  for (; stride > 0 && !late; stride /= 2)
    for (int64_t i = stride; status == NEAP_OK && i < last && !late; i += 2 * stride) {
      status = ask_each(step, i, curve);
      late = seconds_now() > curve->deadline;
    }
  return status;
}

static neap_status measure_keep_all(const neap_step *step, struct curve *curve) {
  neap_plan *plan;
  neap_plan_info info;
  const neap_status status = neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan);
  if (status != NEAP_OK) return status;
  neap_plan_describe(plan, &info);
  curve->keep_all = plan_bytes(plan);
  curve->lower_bound = info.lower_bound_bytes;
  neap_plan_free(plan);
  return NEAP_OK;
}

/* ---- What the answers come to ---- */

static bool cheaper(const neap_plan *plan, const neap_plan *than) {
  neap_plan_info a, b;
  neap_plan_describe(plan, &a);
  neap_plan_describe(than, &b);
  return a.cost < b.cost;
}

/* Adds a point in the place of points of its planner that need no less: it is cheaper. */
static void add_point(struct curve *curve, int series, const struct answer *answer) {
  neap_plan_info info;
  neap_plan_describe(answer->plan, &info);
  while (curve->count > 0 && curve->points[curve->count - 1].series == series &&
         curve->points[curve->count - 1].bytes >= (double)plan_bytes(answer->plan))
    curve->count--;
  curve->points[curve->count++] =
      (struct curve_point){series, (double)plan_bytes(answer->plan), overhead_of(info.cost, info.base_cost),
                           answer->plan, answer->step};
}

/* A plan for less is a plan for more: where the planner found none, or none that is cheaper, it has the one
 * before. */
static neap_status gather(int series, struct curve *curve) {
  const neap_plan *best = NULL;
  for (int64_t i = 0; i < curve->budgets; i++) {
    const struct answer *answer = answer_of(curve, series, i);
    if (answer->plan != NULL) {
      neap_plan_info info;
      neap_plan_describe(answer->plan, &info);
      if (info.lower_bound_bytes < curve->lower_bound) curve->lower_bound = info.lower_bound_bytes;
    }
    if (answer->plan != NULL && (best == NULL || cheaper(answer->plan, best))) {
      best = answer->plan;
      add_point(curve, series, answer);
    }
    if (best != NULL && answer->budget > 0 &&
        json_array_append_new(curve->list, plan_json(best, answer->budget, curve->planners[series])) != 0)
      return no_memory();
  }
  return NEAP_OK;
}

static neap_status trace_all(const neap_step *step, struct curve *curve) {
  neap_status status = measure_keep_all(step, curve);
  curve->watch = watch_begin(curve->plan_seconds, curve->planner_count * curve->budgets);
  if (status == NEAP_OK) status = ask_all(step, curve);
  watch_end(curve->watch);
  for (int i = 0; status == NEAP_OK && i < curve->planner_count; i++) status = gather(i, curve);
  return status;
}

/* ---- Output ---- */

static void print_csv(FILE *file, const struct curve *curve) {
  fprintf(file, "planner,peak_bytes,overhead\n");
  for (int64_t i = 0; i < curve->count; i++)
    fprintf(file, "%s,%.0f,%.6f\n", curve->planners[curve->points[i].series], curve->points[i].bytes,
            curve->points[i].overhead);
}

static void print_point(const struct curve *curve, const char *name, const struct curve_point *p) {
  printf("%-16s %12s %16s %9.1f%%", name, bytes_text((uint64_t)p->bytes).text,
         percent_text(curve->keep_all > 0 ? p->bytes / (double)curve->keep_all : 1).text, 100 * p->overhead);
}

/* The points that no other beats come first, with whose they are. */
static void print_table(const struct curve *curve, const int64_t *front, int64_t front_count) {
  printf("%-16s %12s %16s %10s\n", "planner", "memory", "of keeping all", "overhead");
  for (int64_t i = 0; curve->planner_count > 1 && i < front_count; i++) {
    print_point(curve, "the best", &curve->points[front[i]]);
    printf("  %s\n", curve->planners[curve->points[front[i]].series]);
  }
  if (curve->planner_count > 1) putchar('\n');
  for (int64_t i = 0; i < curve->count; i++) {
    print_point(curve, curve->planners[curve->points[i].series], &curve->points[i]);
    putchar('\n');
  }
}

static struct curve_picture picture_of(const struct curve *curve, const char *title) {
  return (struct curve_picture){.title = title,
                                .series = curve->planners,
                                .series_count = curve->planner_count,
                                .points = curve->points,
                                .count = curve->count,
                                .lower_bound = (double)curve->lower_bound,
                                .keep_all = (double)curve->keep_all};
}

/* The share of keeping everything from which on the least budget leaves no choice. */
static const double nearly_all = 0.98;

static bool has_choice(const struct curve *curve, const int64_t *front, int64_t front_count) {
  return front_count > 0 && curve->points[front[0]].bytes < nearly_all * (double)curve->keep_all;
}

static void tell_of_no_choice(const struct curve *curve, double least) {
  fprintf(stderr,
          "neap: there is nothing to trade: keeping everything needs %s, and the smallest budget met is %s "
          "(no plan needs less than %s)\n",
          bytes_text(curve->keep_all).text, bytes_text((uint64_t)least).text,
          bytes_text(curve->lower_bound).text);
}

static json_t *curve_json(const struct curve *curve, const int64_t *front, int64_t front_count) {
  json_t *best = json_array();
  bool whole = best != NULL;
  for (int64_t i = 0; whole && i < front_count; i++) {
    const struct curve_point *p = &curve->points[front[i]];
    whole =
        json_array_append_new(best, plan_json(p->plan, (uint64_t)p->bytes, curve->planners[p->series])) == 0;
  }
  if (whole)
    return json_pack("{s:O, s:o, s:b, s:I}", "points", curve->list, "best", best, "tradable",
                     has_choice(curve, front, front_count), "keep_all_bytes", (json_int_t)curve->keep_all);
  json_decref(best);
  return NULL;
}

/* The file's text, by its ending; the caller frees it. */
static neap_status draw(const struct curve *curve, const neap_step *step, const char *path, char **text,
                        size_t *length) {
  neap_step_info info;
  neap_step_describe(step, &info);
  const struct curve_picture picture = picture_of(curve, info.name);
  const struct page page = {.step = step, .curve = &picture};
  if (has_ending(path, ".html")) return draw_page(&page, text, length);
  if (has_ending(path, ".svg")) {
    *text = draw_curve(&picture, length);
    return *text != NULL ? NEAP_OK : no_memory();
  }
  FILE *file = open_memstream(text, length);
  if (file == NULL) return no_memory();
  print_csv(file, curve);
  return fclose(file) == 0 ? NEAP_OK : no_memory();
}

static int write_curve(const struct curve *curve, const neap_step *step, const char *path) {
  char *text = NULL;
  size_t length = 0;
  int result = EXIT_FAILED;
  if (draw(curve, step, path, &text, &length) == NEAP_OK)
    result = write_text_file(path, text, length);
  else
    fprintf(stderr, "neap: %s: out of memory\n", path);
  free(text);
  return result;
}

/* ---- The verb ---- */

static bool known_ending(const char *path) {
  return has_ending(path, ".csv") || has_ending(path, ".svg") || has_ending(path, ".html");
}

/* Splits `names`, in place. */
static int split_planners(const struct verb *verb, char *names, struct curve *curve) {
  for (char *rest = names, *name; (name = strsep(&rest, ",")) != NULL;) {
    if (name[0] == '\0') return report_usage(verb, "--planner: a name between two commas is missing");
    if (!planner_exists(name))
      return report_usage(verb, "--planner %s: unknown planner; see `neap planners`", name);
    for (int i = 0; i < curve->planner_count; i++)
      if (strcmp(curve->planners[i], name) == 0)
        return report_usage(verb, "--planner: %s is named twice", name);
    if (curve->planner_count == PLANNER_LIMIT) return report_usage(verb, "--planner: too many planners");
    curve->planners[curve->planner_count++] = name;
  }
  return EXIT_DONE;
}

static const char all_planners[] = "all";

/* One of each kind: the well-known one, the optimum of a chain, a walk, a search. */
static bool is_usual(const char *name) {
  static const char *const usual[] = {"chen-sqrt", "rotor", "evict", "neap"};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (strcmp(name, usual[i]) == 0) return true;
  return false;
}

/* Chooses a few of the rows that `auto` asks, or all of them; their best, `auto`, if each would take long. */
static void usual_planners(int32_t nodes, bool all, struct curve *curve) {
  neap_row row;
  if (nodes > LARGE_STEP) curve->planners[curve->planner_count++] = "auto";
  for (int32_t i = 0; nodes <= LARGE_STEP && curve->planner_count < PLANNER_LIMIT && neap_planner_at(i, &row);
       i++)
    if (nodes <= row.auto_limit && (all || is_usual(row.name)))
      curve->planners[curve->planner_count++] = row.name;
}

/* Chooses what the settings leave open. */
static int choose(const struct settings *s, const neap_step *step, struct curve *curve) {
  neap_step_info info;
  neap_step_describe(step, &info);
  if (curve->planner_count == 0) usual_planners(info.nodes, s->planners != NULL, curve);
  const double seconds = s->a.options.session.plan_seconds;
  curve->budgets = s->points > 0 ? s->points : POINTS;
  curve->deadline = s->points > 0 ? INFINITY : seconds_now() + patience;
  curve->plan_seconds = seconds > 0 ? seconds : info.nodes > LARGE_STEP ? LARGE_SECONDS : 0;
  const size_t count = (size_t)(curve->budgets * curve->planner_count);
  curve->points = calloc(count, sizeof *curve->points);
  curve->answers = calloc(count, sizeof *curve->answers);
  curve->list = json_array();
  if (curve->points != NULL && curve->answers != NULL && curve->list != NULL) return EXIT_DONE;
  fputs("neap: out of memory\n", stderr);
  return EXIT_FAILED;
}

/* Reports the planners that were asked by name and have no plan. */
static void report_unsuited(const struct settings *s, const struct curve *curve) {
  const bool named = s->planners != NULL && strcmp(s->planners, all_planners) != 0;
  for (int i = 0; named && i < curve->planner_count; i++)
    if (answer_of(curve, i, 0)->plan == NULL)
      fprintf(stderr, "neap: %s has no plan for this graph under any budget: it accepts %s\n",
              curve->planners[i], planner_graphs(curve->planners[i]));
}

static int tell_curve(const struct settings *s, const struct curve *curve) {
  const struct curve_picture picture = picture_of(curve, "");
  int64_t front_count;
  int64_t *front = curve_front(&picture, &front_count);
  if (front == NULL) {
    fputs("neap: out of memory\n", stderr);
    return EXIT_FAILED;
  }
  int result = EXIT_DONE;
  if (s->a.json)
    result = print_json(curve_json(curve, front, front_count));
  else
    print_table(curve, front, front_count);
  if (front_count > 0 && !has_choice(curve, front, front_count))
    tell_of_no_choice(curve, curve->points[front[0]].bytes);
  free(front);
  return result;
}

static int make_curve(const struct verb *verb, const struct settings *s, const neap_step *step,
                      struct curve *curve) {
  const neap_status status = trace_all(step, curve);
  if (status != NEAP_OK) return report_failure(verb, status);
  report_unsuited(s, curve);
  int result = curve->count > 0 ? EXIT_DONE : EXIT_FAILED;
  if (result == EXIT_DONE && s->out != NULL) result = write_curve(curve, step, s->out);
  return result == EXIT_DONE ? tell_curve(s, curve) : result;
}

static void free_curve(struct curve *curve) {
  for (int64_t i = 0; curve->answers != NULL && i < curve->planner_count * curve->budgets; i++) {
    neap_plan_free(curve->answers[i].plan);
    neap_step_free(curve->answers[i].step);
  }
  free(curve->answers);
  free(curve->points);
  json_decref(curve->list);
}

static int curve_allowed(const struct verb *verb, const struct settings *s) {
  struct techniques techniques;
  if (s->a.operands.count > 0)
    return report_usage(verb, "%s: a step file is fixed; --allow needs --model", s->a.operands.values[0]);
  if (s->planners != NULL)
    return report_usage(verb, "--planner %s: --allow works with the planner auto only", s->planners);
  const int opened = techniques_open(verb, &s->a, &techniques);
  return opened == EXIT_DONE ? curve_techniques(verb, &techniques, s->points, s->out, s->a.json) : opened;
}

int run_curve(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  if (!read_arguments(verb, count, arguments, &s, &s.a) || take_model_file(verb, &s.a) != EXIT_DONE)
    return EXIT_USAGE;
  const struct operands *operands = &s.a.operands;
  if (s.out != NULL && !known_ending(s.out))
    return report_usage(verb, "-o %s: its ending must be .csv, .svg or .html", s.out);
  if (check_output(verb, s.out, s.a.json) != EXIT_DONE) return EXIT_USAGE;
  if (given_text(&s.a, "allow") != NULL) return curve_allowed(verb, &s);
  const bool named = s.planners != NULL && strcmp(s.planners, all_planners) != 0;
  char *names = named ? strdup(s.planners) : NULL;
  struct curve curve = {.source = &s.a.options};
  neap_step *step = NULL;
  int result =
      named && names == NULL ? report_failure(verb, no_memory()) : split_planners(verb, names, &curve);
  if (result == EXIT_DONE) result = source_open(verb, &s.a, operands->values[0], &step);
  if (result == EXIT_DONE) result = choose(&s, step, &curve);
  if (result == EXIT_DONE) result = make_curve(verb, &s, step, &curve);
  neap_step_free(step);
  free_curve(&curve);
  free(names);
  return result;
}
