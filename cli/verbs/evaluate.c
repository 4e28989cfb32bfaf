/* neap evaluate */
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/run_settings.h"
#include "shared/threads.h"
#include "verbs/verbs.h"

static neap_status evaluate(const neap_train_options *run, const neap_train_options *asked, bool planned_anew,
                            neap_evaluation *result) {
  neap_train_options options = *run;
  options.out = options.metrics = options.save_plan = NULL;
  if (planned_anew) options.session.plan_file = NULL; /* it is for the run's own batch and threads */
  options.average = asked->average;
  options.best = asked->best;
  options.by_class = true;
  options.session.plan_quick = true; /* it is planned for training, and only the arena is used */
  const neap_status status = neap_evaluate(&options, result);
  if (status != NEAP_OVER_BUDGET || options.session.plan_file != NULL) return status;
  neap_evaluation_free(result);
  options.session.plan_quick = false; /* quick planning may miss a budget that full planning just meets */
  return neap_evaluate(&options, result);
}

/* ---- By class ---- */

static double share(int64_t part, int64_t whole) { return whole > 0 ? (double)part / (double)whole : 0; }

/* Return a class's precision, the share of right ones among the records taken for it; its recall, the share
 * of right ones among its records; and their harmonic mean. 0: there are no records to divide by. */
static double precision_of(const neap_class_scores *c) { return share(c->right, c->predicted); }
static double recall_of(const neap_class_scores *c) { return share(c->right, c->records); }
static double f1_of(const neap_class_scores *c) { return share(2 * c->right, c->predicted + c->records); }

static bool add_classes(json_t *object, const neap_evaluation *e) {
  json_t *classes = json_array(), *matrix = json_array();
  for (int64_t k = 0; k < e->classes; k++) {
    const neap_class_scores *c = &e->class_rows[k];
    json_array_append_new(classes,
                          json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f}", "name", c->name, "records",
                                    (json_int_t)c->records, "predicted", (json_int_t)c->predicted, "right",
                                    (json_int_t)c->right, "precision", precision_of(c), "recall",
                                    recall_of(c), "f1", f1_of(c)));
    json_t *row = json_array();
    for (int64_t j = 0; j < e->classes; j++)
      json_array_append_new(row, json_integer((json_int_t)e->confusion[k * e->classes + j]));
    json_array_append_new(matrix, row);
  }
  const bool added = json_object_set_new(object, "classes", classes) == 0;
  return json_object_set_new(object, "confusion", matrix) == 0 && added;
}

static void print_classes(const neap_evaluation *e) {
  static const int64_t rows_limit = 100, matrix_limit = 20;
  int width = 5;
  double mean = 0;
  for (int64_t k = 0; k < e->classes; k++) {
    const int length = (int)strlen(e->class_rows[k].name);
    width = length > width ? length : width;
    mean += f1_of(&e->class_rows[k]) / (double)e->classes;
  }
  if (width > 32) width = 32;
  printf("\n%-*s  %8s %9s %9s %9s\n", width, "class", "records", "precision", "recall", "F1");
  for (int64_t k = 0; k < e->classes && k < rows_limit; k++) {
    const neap_class_scores *c = &e->class_rows[k];
    printf("%-*.*s  %8lld %9.4f %9.4f %9.4f\n", width, width, c->name, (long long)c->records, precision_of(c),
           recall_of(c), f1_of(c));
  }
  if (e->classes > rows_limit) printf("... (--json has all %lld)\n", (long long)e->classes);
  printf("%-*s  %8s %9s %9s %9.4f\n", width, "mean", "", "", "", mean);
  if (e->classes > matrix_limit) return;
  printf("\n%-*s  predicted\n%-*s", width, "was", width, "");
  for (int64_t k = 0; k < e->classes; k++) printf(" %6.6s", e->class_rows[k].name);
  for (int64_t k = 0; k < e->classes; k++) {
    printf("\n%-*.*s", width, width, e->class_rows[k].name);
    for (int64_t j = 0; j < e->classes; j++) printf(" %6lld", (long long)e->confusion[k * e->classes + j]);
  }
  putchar('\n');
}

/* ---- The whole ---- */

static json_t *evaluation_json(const neap_train_options *run, const neap_evaluation *e) {
  json_t *object = json_pack(
      "{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:s}", "model", run->model, "data", run->data,
      "batch", (json_int_t)e->batch, "images", (json_int_t)e->images, "step", (json_int_t)e->step, "epoch",
      (json_int_t)e->epoch, "test_accuracy", e->accuracy < 0 ? json_null() : number_json(e->accuracy),
      "test_loss", number_json(e->loss), "budget_bytes", (json_int_t)e->memory.budget, "planned_peak_bytes",
      (json_int_t)e->memory.planned_peak, "measured_peak_bytes", (json_int_t)e->memory.measured_peak,
      "weights_sha256", e->weights_sha256);
  json_object_set_new(object, "records", json_integer((json_int_t)e->images));
  if (of_sequences(e->task)) json_object_set_new(object, "perplexity", number_json(exp(e->loss)));
  if (e->mae >= 0) json_object_set_new(object, "test_mae", number_json(e->mae));
  if (e->mae >= 0) json_object_set_new(object, "test_rmse", number_json(e->rmse));
  if (e->mae >= 0) json_object_set_new(object, "test_r2", number_json(e->r2));
  if (e->bits_per_byte >= 0) json_object_set_new(object, "bits_per_byte", number_json(e->bits_per_byte));
  if (e->class_rows != NULL && object != NULL && !add_classes(object, e)) {
    json_decref(object);
    object = NULL;
  }
  return object;
}

static void print_evaluation(const char *folder, const neap_train_options *run, const neap_evaluation *e) {
  printf("checkpoint    %s: %s after step %lld, %lld complete epoch%s\n", folder, run->model,
         (long long)e->step, (long long)e->epoch, e->epoch == 1 ? "" : "s");
  if (e->mae >= 0)
    printf("test          mean absolute error %.5g, root mean squared error %.5g, R2 %.4f", e->mae, e->rmse,
           e->r2);
  else
    printf("test          accuracy %.2f %%", 100 * e->accuracy);
  printf(", loss %.4f, over %lld %s of %s\n", e->loss, (long long)e->images, e->records, run->data);
  if (of_sequences(e->task)) {
    printf("text          perplexity %.2f", exp(e->loss));
    if (e->bits_per_byte >= 0) printf(", %.3f bits per byte", e->bits_per_byte);
    putchar('\n');
  }
  printf("memory        %s of a budget of %s\n", bytes_text(e->memory.measured_peak).text,
         bytes_text(e->memory.budget).text);
  if (e->class_rows != NULL) print_classes(e);
}

int run_evaluate(const struct verb *verb, int count, char **arguments) {
  struct arguments a, run;
  if (!read_arguments(verb, count, arguments, NULL, &a)) return EXIT_USAGE;
  if (a.operands.count == 0) return report_usage(verb, "the folder of a checkpoint is missing");
  neap_evaluation evaluation = {0};
  int result = read_run(verb, a.operands.values[0], &a, &run);
  if (result == EXIT_DONE) result = prepare_threads(run.options.session.threads);
  if (result == EXIT_DONE) {
    const bool anew =
        given_text(&a, "budget") != NULL || a.options.shape.batch > 0 || a.options.session.threads > 0;
    const neap_status status = evaluate(&run.options, &a.options, anew, &evaluation);
    if (status != NEAP_OK) result = report_failure(verb, status);
    if (status == NEAP_OVER_BUDGET && evaluation.smallest_budget > 0)
      tell_smallest(&a, evaluation.smallest_budget);
  }
  if (result == EXIT_DONE && a.json)
    result = print_json(add_run(evaluation_json(&run.options, &evaluation), a.operands.values[0], NULL));
  else if (result == EXIT_DONE)
    print_evaluation(a.operands.values[0], &run.options, &evaluation);
  neap_evaluation_free(&evaluation);
  return result;
}
