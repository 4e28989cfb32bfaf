/* neap predict */
#include <stddef.h>
#include <sys/stat.h>

#include "cli.h"

struct settings {
  struct arguments a;
  const char *weights, *out, *output;
  bool training;
};

const neap_setting predict_options[] = {
    OWN_OPTION(struct settings, "weights", "FILE.safetensors", NULL, "what training saved", TEXT, weights,
               .flags = NEAP_SETTING_PATH),
    OWN_OPTION(struct settings, "o", "OUT.npy", NULL, "the file that is written: f32 [records, ...]", TEXT,
               out, .flags = NEAP_SETTING_PATH),
    OWN_OPTION(struct settings, "output", "NAME", "logits", "which output of the model", TEXT, output),
    OWN_OPTION(struct settings, "train", NULL, NULL, "the training records, not the test records", SWITCH,
               training),
    {0},
};

static json_t *dims_json(const neap_predict_result *r) {
  json_t *dims = json_array();
  for (int i = 0; dims != NULL && i < r->rank; i++) json_array_append_new(dims, json_integer(r->dims[i]));
  return dims;
}

static json_t *result_json(const struct settings *s, const neap_predict_result *r) {
  return json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:I, s:I, s:I}", "model", s->a.options.model, "data",
                   s->a.options.data, "file", s->out, "records", (json_int_t)r->records, "shape",
                   dims_json(r), "accuracy", r->accuracy >= 0 ? json_real(r->accuracy) : json_null(),
                   "planned_peak_bytes", (json_int_t)r->memory.planned_peak, "measured_peak_bytes",
                   (json_int_t)r->memory.measured_peak, "resident_bytes", (json_int_t)r->memory.resident);
}

static void print_result(const struct settings *s, const neap_predict_result *r) {
  printf("predicted     %lld records of %s into %s: f32 [", (long long)r->records, s->a.options.data, s->out);
  for (int i = 0; i < r->rank; i++) printf("%s%lld", i > 0 ? ", " : "", (long long)r->dims[i]);
  printf("]\n");
  if (r->accuracy >= 0) printf("accuracy      %.2f %%\n", 100 * r->accuracy);
  printf("memory        %s, of which weights and a batch are %s\n", bytes_text(r->memory.measured_peak).text,
         bytes_text(r->memory.resident).text);
}

static int check_needed(const struct verb *verb, const struct settings *s) {
  const struct {
    const char *name, *value;
  } needed[] = {{"--model", s->a.options.model},
                {"--weights", s->weights},
                {"--data", s->a.options.data},
                {"-o", s->out}};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (needed[i].value == NULL) return report_usage(verb, "%s is missing", needed[i].name);
  struct stat status;
  if (stat(s->weights, &status) == 0 && S_ISDIR(status.st_mode))
    return report_usage(verb, "--weights %s: is a folder; name the weights-*.safetensors in it", s->weights);
  return check_use(verb, &s->a);
}

int run_predict(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  neap_train_options *o = &s.a.options;
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  const int checked = check_needed(verb, &s);
  if (checked != EXIT_DONE) return checked;
  if (given_text(&s.a, "budget") == NULL) o->session.budget = NEAP_BUDGET_MIN;
  const int ready = prepare_threads(o->session.threads);
  if (ready != EXIT_DONE) return ready;
  const neap_predict_options options = {.model = o->model,
                                        .weights = s.weights,
                                        .data = o->data,
                                        .out = s.out,
                                        .output = s.output,
                                        .training_records = s.training,
                                        .shape = o->shape,
                                        .session = o->session};
  neap_predict_result result;
  const neap_status status = neap_predict(&options, &result);
  if (status == NEAP_OVER_BUDGET && result.smallest_budget > 0)
    fprintf(stderr, "  the smallest that can: --budget %llu (%s)\n",
            (unsigned long long)result.smallest_budget, bytes_text(result.smallest_budget).text);
  if (status != NEAP_OK) return report_failure(verb, status);
  if (s.a.json) return print_json(result_json(&s, &result));
  print_result(&s, &result);
  return EXIT_DONE;
}
