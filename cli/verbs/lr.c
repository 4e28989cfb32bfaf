/* neap lr: a learning-rate range test (Smith 2017, "Cyclical learning rates for training neural networks",
 * section 3.3): a short run whose rate rises by one factor a step. */
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/svg.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/run_settings.h"
#include "shared/threads.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  double from, to;
  const char *out;
};

const neap_setting lr_options[] = {
    OWN_OPTION(struct settings, "from", "X", "1e-6", "learning rate of the first step", NUMBER, from, 1e-30),
    OWN_OPTION(struct settings, "to", "X", "SGD 10, others 1", "learning rate of the last step", NUMBER, to,
               1e-30),
    OWN_OPTION(struct settings, "o", "FILE", NULL, "write the points as FILE.svg or FILE.csv", TEXT, out,
               .flags = NEAP_SETTING_PATH),
    {0},
};

/* ---- The run ---- */

/* The state of a test so far. */
struct test {
  struct rate_point *points; /* with room for all steps */
  int64_t count;
  double mean,
      least; /* of the losses: weighted, the last ones most, not yet divided; the smallest smoothed */
};

static const double kept = 0.9;           /* of the mean of earlier losses, at each step */
static const double enough = 4;           /* times the least smoothed loss: there is nothing more to see */
static const int64_t first_to_trust = 10; /* steps until the mean says something */

/* Ends the run where the loss has gone up for good. */
static int on_step(void *context, const neap_train_progress *p) {
  struct test *t = context;
  if (p->step == 0 || !isfinite(p->loss)) return 0; /* of which the run ends by itself */
  t->mean = kept * t->mean + (1 - kept) * p->loss;
  const double smoothed = t->mean / (1 - pow(kept, (double)p->step));
  t->points[t->count++] = (struct rate_point){p->learning_rate, p->loss, smoothed};
  t->least = fmin(t->least, smoothed);
  return t->count >= first_to_trust && smoothed > enough * t->least;
}

/* The place of the least smoothed loss before it first goes up by more than a tenth: behind that, weights
 * that a high rate has thrown far away may come back. */
static int64_t least_at(const struct test *t) {
  static const double gone_up = 1.1;
  int64_t least = t->count > first_to_trust ? first_to_trust : 0;
  for (int64_t i = least + 1; i < t->count && t->points[i].smoothed <= gone_up * t->points[least].smoothed;
       i++)
    if (t->points[i].smoothed < t->points[least].smoothed) least = i;
  return least;
}

/* The rate at which the smoothed loss falls fastest, up to its least; 0: it does not fall. Rates lie at one
 * ratio, so that the slope over their logarithms is that over the steps. */
static double suggested_rate(const struct test *t) {
  const int64_t least = least_at(t);
  int64_t best = 0;
  double slope = 0;
  for (int64_t i = first_to_trust; i < least; i++) {
    const double here = t->points[i + 1].smoothed - t->points[i - 1].smoothed;
    if (here < slope) slope = here, best = i;
  }
  return best > 0 ? t->points[best].rate : 0;
}

/* ---- What it says ---- */

static json_t *result_json(const neap_train_options *o, const struct test *t, neap_status ended) {
  json_t *points = json_array();
  for (int64_t i = 0; i < t->count; i++)
    json_array_append_new(points, json_pack("{s:f, s:f, s:f}", "learning_rate", t->points[i].rate, "loss",
                                            t->points[i].loss, "smoothed", t->points[i].smoothed));
  const double suggested = suggested_rate(t);
  return json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:f, s:b}", "model", o->model, "data", o->data, "batch",
                   (json_int_t)o->shape.batch, "steps", (json_int_t)t->count, "points", points,
                   "suggested_learning_rate", suggested > 0 ? json_real(suggested) : json_null(),
                   "least_loss_learning_rate", t->points[least_at(t)].rate, "stopped_early",
                   ended != NEAP_OK);
}

static void print_result(const neap_train_options *o, const struct test *t, neap_status ended) {
  static const int64_t rows = 20;
  const int64_t every = (t->count + rows - 1) / rows;
  printf("%s on %s, batch %lld: %lld steps%s\n\n%-14s %10s %10s\n", o->model, o->data,
         (long long)o->shape.batch, (long long)t->count, ended != NEAP_OK ? ", until the loss rose" : "",
         "learning rate", "loss", "smoothed");
  for (int64_t i = 0; i < t->count; i += every)
    printf("%-14.4g %10.4f %10.4f\n", t->points[i].rate, t->points[i].loss, t->points[i].smoothed);
  const double suggested = suggested_rate(t);
  printf("\nlowest loss at %.4g\n", t->points[least_at(t)].rate);
  if (suggested > 0)
    printf("suggestion     --lr %.2g, where the smoothed loss falls fastest\n", suggested);
  else
    printf("suggestion     none: the loss does not fall; try more --steps, or other rates (--from, --to)\n");
}

static int write_points(const struct verb *verb, const char *path, const char *title, const struct test *t) {
  const struct rate_picture picture = {
      .title = title, .points = t->points, .count = t->count, .suggested = suggested_rate(t)};
  char *text = NULL;
  size_t length = 0;
  if (has_ending(path, ".svg")) {
    text = draw_rates(&picture, &length);
  } else {
    FILE *file = open_memstream(&text, &length);
    if (file == NULL) return report_failure(verb, no_memory());
    fputs("learning_rate,loss,smoothed\n", file);
    for (int64_t i = 0; i < t->count; i++)
      fprintf(file, "%.9g,%.9g,%.9g\n", t->points[i].rate, t->points[i].loss, t->points[i].smoothed);
    if (fclose(file) != 0) free(text), text = NULL;
  }
  if (text == NULL) return report_failure(verb, no_memory());
  const int result = write_text_file(path, text, length);
  free(text);
  return result;
}

/* ---- The verb ---- */

static int check_needed(const struct verb *verb, struct settings *s) {
  neap_train_options *o = &s->a.options;
  if (s->from == 0) s->from = 1e-6;
  if (s->to == 0) s->to = o->session.optimizer == NEAP_SGD ? 10 : 1;
  if (s->from >= s->to)
    return report_usage(verb, "--from %g: the first rate must be below the last rate, --to %g", s->from,
                        s->to);
  if (s->out != NULL && !has_ending(s->out, ".svg") && !has_ending(s->out, ".csv") &&
      s->out != standard_output)
    return report_usage(verb, "-o %s: the name must end in .svg or .csv", s->out);
  const int result = check_output(verb, s->out, s->a.json);
  return result == EXIT_DONE ? complete_run(verb, &s->a) : result;
}

static int finish(const struct verb *verb, const struct settings *s, const struct test *t, neap_status status,
                  const neap_train_result *result) {
  const neap_train_options *o = &s->a.options;
  const bool ended = status == NEAP_OK || status == NEAP_INTERRUPTED || status == NEAP_DIVERGED;
  if (status == NEAP_OVER_BUDGET && result->smallest_budget > 0)
    tell_smallest(&s->a, result->smallest_budget);
  if (!ended || t->count < 2) return report_failure(verb, status);
  char title[200];
  snprintf(title, sizeof title, "%s: loss against the learning rate", o->model);
  const int written = s->out != NULL ? write_points(verb, s->out, title, t) : EXIT_DONE;
  if (written != EXIT_DONE) return written;
  if (s->a.json) return print_json(add_run(result_json(o, t, status), NULL, o->data));
  if (s->out != standard_output) print_result(o, t, status);
  return EXIT_DONE;
}

int run_lr(const struct verb *verb, int count, char **arguments) {
  static const int64_t usual_steps = 100;
  struct settings s = {0};
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  neap_train_options *o = &s.a.options;
  int result = check_needed(verb, &s);
  if (result == EXIT_DONE) result = prepare_threads(o->session.threads);
  if (result != EXIT_DONE) return result;
  if (o->steps == 0) o->steps = usual_steps;
  struct test test = {.points = calloc((size_t)o->steps, sizeof *test.points), .least = INFINITY};
  if (test.points == NULL) return report_failure(verb, no_memory());
  o->schedule = NEAP_LR_EXPONENTIAL;
  o->learning_rate = s.from;
  o->final_learning_rate = s.to;
  o->no_evaluation = true;
  o->progress = on_step;
  o->context = &test;
  neap_train_result trained;
  const neap_status status = neap_train(o, &trained);
  result = finish(verb, &s, &test, status, &trained);
  free(test.points);
  return result;
}
