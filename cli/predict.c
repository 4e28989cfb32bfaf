/* neap predict */
#include <stddef.h>
#include <sys/stat.h>

#include "cli.h"

struct settings {
  const char *model, *weights, *data, *out, *output;
  struct budget budget;
  int64_t batch, image[3], classes, length;
  int convolution, backend, threads;
  bool training, json;
};

const struct option predict_options[] = {
    {"--model", "NAME", "a ready-made model, one of `neap models`", OPTION_TEXT,
     offsetof(struct settings, model), 0, 0},
    {"--weights", "FILE.safetensors", "what training saved", OPTION_TEXT, offsetof(struct settings, weights),
     0, 0},
    {"--data", "SET", "cifar10:DIR, mnist:DIR or synthetic", OPTION_TEXT, offsetof(struct settings, data), 0,
     0},
    {"-o", "OUT.npy", "the file that is written: f32 [records, ...]", OPTION_TEXT,
     offsetof(struct settings, out), 0, 0},
    {"--output", "NAME", "which output of the model (logits)", OPTION_TEXT, offsetof(struct settings, output),
     0, 0},
    {"--train", NULL, "the training records, not the test records", OPTION_SWITCH,
     offsetof(struct settings, training), 0, 0},
    {"--batch", "N", "records at a time (the model's usual)", OPTION_INTEGER,
     offsetof(struct settings, batch), 1, 0},
    {"--image", "CxHxW", "what synthetic draws (the model's usual)", OPTION_IMAGE,
     offsetof(struct settings, image), 0, 0},
    {"--length", "N", "of sequences (the model's usual)", OPTION_INTEGER, offsetof(struct settings, length),
     1, 0},
    {"--classes", "N", "of the model (those of the data)", OPTION_INTEGER, offsetof(struct settings, classes),
     1, 0},
    {"--budget", "B", "bytes: 96MiB, 0.5GB, 100663296, 80%, min or max (min)", OPTION_BUDGET,
     offsetof(struct settings, budget), 0, 0},
    {"--conv", "auto|direct|winograd", "algorithm of convolutions (auto)", OPTION_WORD,
     offsetof(struct settings, convolution), 0, 0},
    {"--backend", "cpu|reference", "fast f32, or plain C in double (cpu)", OPTION_WORD,
     offsetof(struct settings, backend), 0, 0},
    {"--threads", "N", "that it runs on (all cores)", OPTION_INT, offsetof(struct settings, threads), 1, 0},
    {"--json", NULL, "one JSON object on standard output", OPTION_SWITCH, offsetof(struct settings, json), 0,
     0},
    {0},
};

static json_t *dims_json(const neap_predict_result *r) {
  json_t *dims = json_array();
  for (int i = 0; dims != NULL && i < r->rank; i++) json_array_append_new(dims, json_integer(r->dims[i]));
  return dims;
}

static json_t *result_json(const struct settings *s, const neap_predict_result *r) {
  return json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:I, s:I, s:I}", "model", s->model, "data", s->data,
                   "file", s->out, "records", (json_int_t)r->records, "shape", dims_json(r), "accuracy",
                   r->accuracy >= 0 ? json_real(r->accuracy) : json_null(), "planned_peak_bytes",
                   (json_int_t)r->memory.planned_peak, "measured_peak_bytes",
                   (json_int_t)r->memory.measured_peak, "resident_bytes", (json_int_t)r->memory.resident);
}

static void print_result(const struct settings *s, const neap_predict_result *r) {
  printf("predicted     %lld records of %s into %s: f32 [", (long long)r->records, s->data, s->out);
  for (int i = 0; i < r->rank; i++) printf("%s%lld", i > 0 ? ", " : "", (long long)r->dims[i]);
  printf("]\n");
  if (r->accuracy >= 0) printf("accuracy      %.2f %%\n", 100 * r->accuracy);
  printf("memory        %s, of which weights and a batch are %s\n", bytes_text(r->memory.measured_peak).text,
         bytes_text(r->memory.resident).text);
}

int run_predict(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  struct operands operands;
  if (!read_arguments(verb, count, arguments, &s, &operands, NULL)) return EXIT_USAGE;
  if (operands.count > 0) return report_usage(verb, "%s: there is no use for it", operands.values[0]);
  const struct {
    const char *name, *value;
  } needed[] = {{"--model", s.model}, {"--weights", s.weights}, {"--data", s.data}, {"-o", s.out}};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (needed[i].value == NULL) return report_usage(verb, "%s is missing", needed[i].name);
  struct stat status_of_weights;
  if (stat(s.weights, &status_of_weights) == 0 && S_ISDIR(status_of_weights.st_mode))
    return report_usage(verb, "--weights %s: is a folder; name the weights-*.safetensors in it", s.weights);
  const int ready = prepare_threads(s.threads);
  if (ready != EXIT_DONE) return ready;
  const neap_predict_options options = {.model = s.model,
                                        .weights = s.weights,
                                        .data = s.data,
                                        .out = s.out,
                                        .output = s.output,
                                        .training_records = s.training,
                                        .shape = {.batch = s.batch,
                                                  .image = {s.image[0], s.image[1], s.image[2]},
                                                  .classes = s.classes,
                                                  .length = s.length},
                                        .session = {.budget = s.budget.bytes,
                                                    .budget_fraction = s.budget.fraction,
                                                    .convolution = (neap_convolution)s.convolution,
                                                    .backend = (neap_backend)s.backend,
                                                    .threads = s.threads}};
  neap_predict_result result;
  const neap_status status = neap_predict(&options, &result);
  if (status == NEAP_OVER_BUDGET && result.smallest_budget > 0)
    fprintf(stderr, "  the smallest that can: --budget %llu (%s)\n",
            (unsigned long long)result.smallest_budget, bytes_text(result.smallest_budget).text);
  if (status != NEAP_OK) return report_failure(verb, status);
  if (s.json) return print_json(result_json(&s, &result));
  print_result(&s, &result);
  return EXIT_DONE;
}
