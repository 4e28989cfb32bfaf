/* neap predict */
#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/run_settings.h"
#include "shared/threads.h"
#include "shared/understood.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  json_t *understood; /* for --json */
  const char *weights, *out, *output;
  bool training;
};

const neap_setting predict_options[] = {
    OWN_OPTION(struct settings, "weights", "FILE.safetensors", NULL,
               "weights that training saved, when RUN is not given", TEXT, weights,
               .flags = NEAP_SETTING_PATH),
    OWN_OPTION(struct settings, "o", "OUT", NULL,
               "OUT.csv or .jsonl: names and probabilities; OUT.npy: f32 [records, ...]", TEXT, out,
               .flags = NEAP_SETTING_PATH),
    OWN_OPTION(struct settings, "output", "NAME", "logits; for values, the prediction",
               "which output of the model to write; sentence: the vector of a text, for encoders from files",
               TEXT, output),
    OWN_OPTION(struct settings, "train", NULL, NULL, "use the training records instead of the test records",
               SWITCH, training),
    {0},
};

static json_t *dims_json(const neap_predict_result *r) {
  json_t *dims = json_array();
  for (int i = 0; dims != NULL && i < r->rank; i++) json_array_append_new(dims, json_integer(r->dims[i]));
  return dims;
}

/* Tells what the data were read as, or keeps it for --json. */
static void take_understood(void *context, const neap_understood *rows, int64_t count) {
  struct settings *s = context;
  if (s->a.json)
    s->understood = understood_json(rows, count);
  else
    print_understood(stdout, rows, count);
}

static json_t *result_json(const struct settings *s, const neap_predict_result *r) {
  return json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:I, s:I, s:I, s:O?}", "model", s->a.options.model, "data",
                   s->a.options.data, "file", s->out, "records", (json_int_t)r->records, "shape",
                   dims_json(r), "accuracy", r->accuracy >= 0 ? json_real(r->accuracy) : json_null(),
                   "planned_peak_bytes", (json_int_t)r->memory.planned_peak, "measured_peak_bytes",
                   (json_int_t)r->memory.measured_peak, "resident_bytes", (json_int_t)r->memory.resident,
                   "understood", s->understood);
}

static void print_result(const struct settings *s, const neap_predict_result *r) {
  printf("predicted     %lld records of %s into %s: [", (long long)r->records, s->a.options.data, s->out);
  for (int i = 0; i < r->rank; i++) printf("%s%lld", i > 0 ? ", " : "", (long long)r->dims[i]);
  printf("]\n");
  if (r->accuracy >= 0) printf("accuracy      %.2f %%\n", 100 * r->accuracy);
  printf("memory        %s, of which weights and a batch take %s\n", bytes_text(r->memory.measured_peak).text,
         bytes_text(r->memory.resident).text);
}

/* A language model of a file, and no run: its own weights are taken. Where the system does not tell, reading
 * the run says why. */
static bool is_model(const char *operand) {
  char state[4096];
  struct stat status;
  const int length = snprintf(state, sizeof state, "%s/state.json", operand);
  return neap_model_names_file(operand) && (size_t)length < sizeof state && stat(state, &status) != 0 &&
         errno == ENOENT;
}

/* A run has a model, weights and data, a model its weights. */
static int check_needed(const struct verb *verb, struct settings *s, bool operand, bool model) {
  const struct {
    const char *name, *value;
  } needed[] = {{"--model", s->a.options.model},
                {"--weights", s->weights},
                {"--data", s->a.options.data},
                {"-o", s->out}};
  for (size_t i = !operand ? 0 : model ? 2 : 3; i < sizeof needed / sizeof *needed; i++)
    if (needed[i].value == NULL) return report_usage(verb, "%s is missing", needed[i].name);
  struct stat status;
  if (s->weights != NULL && stat(s->weights, &status) == 0 && S_ISDIR(status.st_mode))
    return report_usage(
        verb,
        "--weights %s is a folder; name a weights-*.safetensors in it, or give the folder without --weights",
        s->weights);
  return operand && !model ? EXIT_DONE : check_use(verb, &s->a);
}

/* With the model, its shape and the arithmetic of `run`, which may be the verb's own arguments. */
static int predict(const struct verb *verb, struct settings *s, const char *folder,
                   const neap_train_options *run) {
  neap_predict_options options = {.model = run->model,
                                  .opened = run->opened,
                                  .checkpoint = folder,
                                  .best = s->a.options.best,
                                  .weights = s->weights,
                                  .data = s->a.options.data,
                                  .run = run,
                                  .out = s->out,
                                  .output = s->output,
                                  .training_records = s->training,
                                  .shape = run->shape,
                                  .understood = take_understood,
                                  .context = s,
                                  .session = {.convolution = run->session.convolution,
                                              .bits = run->session.bits,
                                              .backend = run->session.backend,
                                              .threads = run->session.threads,
                                              .budget = s->a.options.session.budget,
                                              .budget_fraction = s->a.options.session.budget_fraction}};
  if (given_text(&s->a, "budget") == NULL) options.session.budget = NEAP_BUDGET_MIN;
  options.shape.smoothing = 0;
  const int ready = prepare_threads(options.session.threads);
  if (ready != EXIT_DONE) return ready;
  neap_predict_result result;
  const neap_status status = neap_predict(&options, &result);
  if (status == NEAP_OVER_BUDGET && result.smallest_budget > 0) tell_smallest(&s->a, result.smallest_budget);
  if (status != NEAP_OK) return report_failure(verb, status);
  s->a.options.model = options.model;
  if (s->a.options.data == NULL) s->a.options.data = run->data;
  if (s->a.json) return print_json(add_run(result_json(s, &result), folder, NULL));
  print_result(s, &result);
  return EXIT_DONE;
}

int run_predict(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  struct arguments run;
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  const char *folder = s.a.operands.count > 0 ? s.a.operands.values[0] : NULL;
  const bool model = folder != NULL && is_model(folder);
  int result = EXIT_DONE;
  if (model && set_setting(&s.a, neap_setting_find("model"), folder) != NEAP_OK)
    return report_failure(verb, NEAP_INVALID_ARGUMENT);
  result = check_needed(verb, &s, folder != NULL, model);
  if (model) folder = NULL;
  if (result == EXIT_DONE && folder != NULL) result = read_run(verb, folder, &s.a, &run);
  if (result != EXIT_DONE) return result;
  result = predict(verb, &s, folder, folder != NULL ? &run.options : &s.a.options);
  json_decref(s.understood);
  return result;
}
