/* neap export */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/run_settings.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *out, *type;
  bool merge, adapter, force, no_check;
};

const neap_setting export_options[] = {
    OWN_OPTION(struct settings, "o", "FILE.onnx|FILE.gguf|DIR", NULL,
               "the file to write; for a run with --lora also a folder, which gets its adapters in the "
               "format of peft; for one with --side a folder, which gets its side net",
               TEXT, out, .flags = NEAP_SETTING_PATH),
    OWN_OPTION(struct settings, "merge", NULL, NULL,
               "write the whole language model with its trained weights, as a Hugging Face folder; always so "
               "for FILE.gguf",
               SWITCH, merge),
    OWN_OPTION(struct settings, "adapter", NULL, NULL,
               "write only the adapters, in FILE.gguf as llama.cpp reads them", SWITCH, adapter),
    OWN_OPTION(struct settings, "type", "TYPE", "f32; for GGUF f16",
               "type of the weights of a whole model: f32, bf16 or f16; for GGUF also q8_0", TEXT, type),
    OWN_OPTION(struct settings, "force", NULL, NULL,
               "write a merged model into a folder that already has files", SWITCH, force),
    OWN_OPTION(struct settings, "check-export", "on|off", "on",
               "read the file back, and compare its outputs on a batch with the run's", CHOICE, no_check),
    {0},
};

static bool is_gguf(const char *path) {
  const size_t length = strlen(path);
  return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}

/* Returns the name in JSON of the place that was written to. */
static const char *place_key(const struct settings *s) { return is_gguf(s->out) ? "file" : "folder"; }

/* Prints what the file has no place for, and what became of the check, if it was asked for. */
static void tell_check(const struct settings *s, const neap_export_result *result) {
  if (result->left_out[0] != '\0')
    fprintf(
        stderr,
        "neap: %s: has no place for what the run attends to (%s); give it again where the model is used, for "
        "others attend to all tokens\n",
        s->out, result->left_out);
  if (result->checked)
    printf("checked       read back: outputs of a batch differ from the run's by %.1e of their size (at most "
           "%.0e "
           "is rounding)\n",
           result->difference, result->allowed);
  else if (!s->no_check)
    fprintf(stderr, "neap: %s: not compared with the run: %s\n", s->out, result->unchecked);
}

/* Adds what became of the check to the object. */
static json_t *with_check(json_t *object, const neap_export_result *result) {
  json_object_set_new(object, "checked", json_boolean(result->checked));
  if (result->checked) json_object_set_new(object, "difference", json_real(result->difference));
  if (result->unchecked[0] != '\0') json_object_set_new(object, "unchecked", json_string(result->unchecked));
  if (result->left_out[0] != '\0') json_object_set_new(object, "left_out", json_string(result->left_out));
  return object;
}

static int report_adapters(const struct settings *s, const neap_export_options *options,
                           const neap_export_result *result) {
  if (s->a.json)
    return print_json(with_check(json_pack("{s:s, s:s, s:I}", "model", options->model, place_key(s), s->out,
                                           "adapters", (json_int_t)result->adapters),
                                 result));
  if (options->shape.side > 0)
    printf("exported      the side net of %s into %s\n", options->model, s->out);
  else
    printf("exported      adapters of %lld layers of %s into %s, in the format of %s\n",
           (long long)result->adapters, options->model, s->out, is_gguf(s->out) ? "llama.cpp" : "peft");
  tell_check(s, result);
  return EXIT_DONE;
}

static int report_merged(const struct settings *s, const neap_export_options *options,
                         const neap_export_result *result) {
  if (s->a.json)
    return print_json(with_check(json_pack("{s:s, s:s, s:I}", "model", options->model, place_key(s), s->out,
                                           "tensors", (json_int_t)result->tensors),
                                 result));
  printf("exported      %s into %s: %lld tensors\n", options->model, s->out, (long long)result->tensors);
  tell_check(s, result);
  return EXIT_DONE;
}

/* Finds what to export: a run, or a model as it comes. */
static int find_source(const struct verb *verb, const struct settings *s, struct arguments *run,
                       neap_export_options *options) {
  const char *source = s->a.operands.values[0];
  if (neap_model_names_file(source)) {
    options->model = source;
    return EXIT_DONE;
  }
  const int read = read_run(verb, source, &s->a, run);
  if (read != EXIT_DONE) return read;
  options->model = run->options.model;
  options->opened = run->options.opened;
  options->checkpoint = source;
  options->data = run->options.data;
  options->shape = run->options.shape;
  options->process_budget = run->options.session.process_budget;
  return EXIT_DONE;
}

int run_export(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  struct arguments run;
  neap_export_result result;
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  if (s.a.operands.count == 0) return report_usage(verb, "the folder of a run, or a model file, is missing");
  if (s.out == NULL) return report_usage(verb, "-o is missing: the file or folder to write");
  if (check_output(verb, s.out, s.a.json) != EXIT_DONE) return EXIT_USAGE;
  neap_export_options options = {.best = s.a.options.best,
                                 .out = s.out,
                                 .merge = s.merge,
                                 .adapters = s.adapter,
                                 .type = s.type,
                                 .replace = s.force,
                                 .no_check = s.no_check};
  const int found = find_source(verb, &s, &run, &options);
  if (found != EXIT_DONE) return found;
  options.shape.smoothing = options.shape.dropout = 0;
  const neap_status status = neap_export(&options, &result);
  if (status != NEAP_OK) return report_failure(verb, status);
  if (result.tensors > 0) return report_merged(&s, &options, &result);
  if (result.adapters > 0) return report_adapters(&s, &options, &result);
  if (s.a.json)
    return print_json(
        with_check(json_pack("{s:s, s:s, s:I, s:I, s:o, s:b}", "model", options.model, "file", s.out, "nodes",
                             (json_int_t)result.nodes, "opset", (json_int_t)result.opset, "batch",
                             result.batch > 0 ? json_integer(result.batch) : json_null(), "normalised",
                             result.normalised),
                   &result));
  printf("exported      %s into %s: %lld nodes, opset %lld\n", options.model, s.out, (long long)result.nodes,
         (long long)result.opset);
  printf("input         %s, batch %s",
         result.normalised ? "unnormalised, as in the data (images: bytes, 0 to 255)"
                           : "normalised, as in training",
         result.batch > 0 ? "" : "open\n");
  if (result.batch > 0) printf("%lld\n", (long long)result.batch);
  tell_check(&s, &result);
  return EXIT_DONE;
}
