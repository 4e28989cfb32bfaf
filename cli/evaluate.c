/* neap evaluate */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "run_settings.h"

static neap_status evaluate(const neap_train_options *run, int32_t average, bool planned_anew,
                            neap_evaluation *result) {
  neap_train_options options = *run;
  options.out = options.metrics = options.save_plan = NULL;
  if (planned_anew) options.session.plan_file = NULL; /* it is for the run's own batch and threads */
  options.average = average;
  options.session.plan_quick = true; /* it is planned for training, and only the arena is used */
  const neap_status status = neap_evaluate(&options, result);
  if (status != NEAP_OVER_BUDGET || options.session.plan_file != NULL) return status;
  options.session.plan_quick = false; /* a quick look may miss what is just met */
  return neap_evaluate(&options, result);
}

static json_t *evaluation_json(const neap_train_options *run, const neap_evaluation *e) {
  json_t *object = json_pack(
      "{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:s}", "model", run->model, "data", run->data,
      "batch", (json_int_t)e->batch, "images", (json_int_t)e->images, "step", (json_int_t)e->step, "epoch",
      (json_int_t)e->epoch, "test_accuracy", e->accuracy < 0 ? json_null() : number_json(e->accuracy),
      "test_loss", number_json(e->loss), "budget_bytes", (json_int_t)e->memory.budget, "planned_peak_bytes",
      (json_int_t)e->memory.planned_peak, "measured_peak_bytes", (json_int_t)e->memory.measured_peak,
      "weights_sha256", e->weights_sha256);
  if (e->mae >= 0) json_object_set_new(object, "test_mae", number_json(e->mae));
  if (e->mae >= 0) json_object_set_new(object, "test_r2", number_json(e->r2));
  if (e->bits_per_byte >= 0) json_object_set_new(object, "bits_per_byte", number_json(e->bits_per_byte));
  return object;
}

static void print_evaluation(const char *folder, const neap_train_options *run, const neap_evaluation *e) {
  printf("checkpoint    %s: %s after step %lld, %lld whole epoch%s\n", folder, run->model, (long long)e->step,
         (long long)e->epoch, e->epoch == 1 ? "" : "s");
  if (e->mae >= 0)
    printf("test          mean absolute error %.5g, R2 %.4f", e->mae, e->r2);
  else
    printf("test          accuracy %.2f %%", 100 * e->accuracy);
  printf(", loss %.4f, over %lld %s of %s\n", e->loss, (long long)e->images, e->records, run->data);
  if (strcmp(e->records, "images") != 0 && strcmp(e->records, "records") != 0) {
    printf("text          perplexity %.2f", exp(e->loss));
    if (e->bits_per_byte >= 0) printf(", %.3f bits a byte", e->bits_per_byte);
    putchar('\n');
  }
  printf("memory        %s of a budget of %s\n", bytes_text(e->memory.measured_peak).text,
         bytes_text(e->memory.budget).text);
}

int run_evaluate(const struct verb *verb, int count, char **arguments) {
  struct arguments a, run;
  if (!read_arguments(verb, count, arguments, NULL, &a)) return EXIT_USAGE;
  if (a.operands.count == 0) return report_usage(verb, "the folder of a checkpoint is missing");
  neap_evaluation evaluation;
  int result = read_run(verb, a.operands.values[0], &a, &run);
  if (result == EXIT_DONE) result = prepare_threads(run.options.session.threads);
  if (result == EXIT_DONE) {
    const bool anew =
        given_text(&a, "budget") != NULL || a.options.shape.batch > 0 || a.options.session.threads > 0;
    const neap_status status = evaluate(&run.options, a.options.average, anew, &evaluation);
    if (status != NEAP_OK) result = report_failure(verb, status);
    if (status == NEAP_OVER_BUDGET && evaluation.smallest_budget > 0)
      fprintf(stderr, "  the smallest that can: --budget %llu (%s)\n",
              (unsigned long long)evaluation.smallest_budget, bytes_text(evaluation.smallest_budget).text);
  }
  if (result == EXIT_DONE && a.json)
    result = print_json(evaluation_json(&run.options, &evaluation));
  else if (result == EXIT_DONE)
    print_evaluation(a.operands.values[0], &run.options, &evaluation);
  return result;
}
