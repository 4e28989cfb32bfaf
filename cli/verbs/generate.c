/* neap generate */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/lines.h"
#include "shared/run_settings.h"
#include "shared/threads.h"
#include "verbs/generate.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *prompt, *prompts;
  int64_t tokens, top_k;
  int64_t states; /* negative: not given */
  double temperature;
};

const neap_setting generate_options[] = {
    OWN_OPTION(struct settings, "prompt", "TEXT", "the beginning of a line", "text that the model continues",
               TEXT, prompt),
    OWN_OPTION(struct settings, "prompts", "FILE", NULL,
               "continue each line of a file; what lines have in common at their beginning is read once",
               TEXT, prompts, .flags = NEAP_SETTING_PATH),
    OWN_OPTION(struct settings, "states", "N", "16",
               "states that a recurrent model keeps to go back to, within the budget; 0: none", INTEGER,
               states, .below = 2147483648.0),
    OWN_OPTION(struct settings, "tokens", "N", "200", "maximum number of tokens to generate", INTEGER, tokens,
               .least = 1, .below = 9007199254740992.0),
    OWN_OPTION(struct settings, "temperature", "X", "0.8",
               "sampling temperature: below 1 favours likely tokens; 0: always the most likely token", NUMBER,
               temperature),
    OWN_OPTION(struct settings, "top-k", "K", "all", "sample from the K most likely tokens", INTEGER, top_k,
               .least = 1, .below = 9007199254740992.0),
    {0},
};

/* The place of the text: standard output, behind the prompt and as it comes; with --json memory. */
struct output {
  const char *prompt; /* NULL: it is there already, or has no place there */
  FILE *file;
  char *text; /* in memory */
  size_t length;
};

static void put_prompt(struct output *o) {
  if (o->prompt != NULL) fputs(o->prompt, o->file);
  o->prompt = NULL;
}

static int put_text(void *context, const char *bytes, size_t length) {
  struct output *o = context;
  put_prompt(o);
  return fwrite(bytes, 1, length, o->file) != length || fflush(o->file) != 0;
}

neap_generate_options generation_options(const struct arguments *given, const char *folder,
                                         const neap_train_options *run) {
  const neap_session_options *session = &given->options.session;
  return (neap_generate_options){
      .model = run->model,
      .opened = run->opened,
      .shape = run->shape,
      .folder = folder,
      .best = given->options.best,
      .seed = session->seed,
      .session = {.budget = session->budget,
                  .budget_fraction = session->budget_fraction,
                  .bits = run->session.bits,
                  .backend = run->session.backend,
                  .threads = session->threads > 0 ? session->threads : run->session.threads,
                  .precision = run->session.precision,
                  .master = run->session.master}};
}

static neap_generate_options options_of(const struct settings *s, const char *folder,
                                        const neap_train_options *run, struct output *output) {
  neap_generate_options o = generation_options(&s->a, folder, run);
  o.prompt = s->prompt;
  o.tokens = s->tokens;
  o.temperature = s->temperature;
  o.top_k = s->top_k;
  o.text = put_text;
  o.context = output;
  return o;
}

static double tokens_per_second(const neap_generate_result *r) {
  return r->seconds > 0 ? (double)(r->prompt_tokens + r->tokens) / r->seconds : 0;
}

static json_t *result_json(const neap_train_options *run, const struct settings *s,
                           const neap_generate_result *r, const struct output *output) {
  const char *prompt = s->prompt != NULL ? s->prompt : "";
  return json_pack("{s:s, s:o, s:o, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I}", "model", run->model, "prompt",
                   text_json(prompt, strlen(prompt)), "text", text_json(output->text, output->length),
                   "prompt_tokens", (json_int_t)r->prompt_tokens, "tokens", (json_int_t)r->tokens, "seconds",
                   number_json(r->seconds), "tokens_per_second", number_json(tokens_per_second(r)),
                   "budget_bytes", (json_int_t)r->memory.budget, "planned_peak_bytes",
                   (json_int_t)r->memory.planned_peak, "measured_peak_bytes",
                   (json_int_t)r->memory.measured_peak, "resident_bytes", (json_int_t)r->memory.resident);
}

/* On standard error: on standard output there is the text. */
static void print_result(const neap_generate_result *r) {
  fprintf(stderr, "%lld tokens after %lld, %.1f tokens a second, in %s\n", (long long)r->tokens,
          (long long)r->prompt_tokens, tokens_per_second(r), bytes_text(r->memory.measured_peak).text);
}

static int generate(const struct verb *verb, const struct settings *s, const char *folder,
                    const neap_train_options *run, struct output *output) {
  neap_generate_result result;
  const neap_generate_options options = options_of(s, folder, run, output);
  const neap_status status = neap_generate(&options, &result);
  if (s->a.json && fclose(output->file) != 0) return report_failure(verb, no_memory());
  if (status == NEAP_OVER_BUDGET && result.smallest_budget > 0) tell_smallest(&s->a, result.smallest_budget);
  if (status != NEAP_OK) return report_failure(verb, status);
  if (s->a.json) return print_json(add_run(result_json(run, s, &result, output), folder, run->data));
  put_prompt(output);
  putchar('\n');
  print_result(&result);
  return EXIT_DONE;
}

static int generate_into(const struct verb *verb, const struct settings *s, const char *folder,
                         const neap_train_options *run) {
  struct output output = {.prompt = s->a.json ? NULL : s->prompt, .file = stdout};
  if (s->a.json) output.file = open_memstream(&output.text, &output.length);
  if (output.file == NULL) return report_failure(verb, no_memory());
  const int result = generate(verb, s, folder, run, &output);
  free(output.text);
  return result;
}

/* ---- Several prompts ---- */

static json_t *prompts_json(const neap_train_options *run, const struct lines *prompts,
                            const neap_prompts_result *r) {
  json_t *texts = json_array();
  int64_t read = 0, kept = 0, tokens = 0;
  for (int64_t i = 0; i < r->count; i++) {
    const neap_prompt_result *one = &r->of[i];
    read += one->prompt_tokens, kept += one->kept_tokens, tokens += one->tokens;
    json_array_append_new(texts, json_pack("{s:o, s:o, s:I, s:I, s:I}", "prompt",
                                           text_json(prompts->list[i], strlen(prompts->list[i])), "text",
                                           text_json(one->text, one->length), "prompt_tokens",
                                           (json_int_t)one->prompt_tokens, "kept_tokens",
                                           (json_int_t)one->kept_tokens, "tokens", (json_int_t)one->tokens));
  }
  return json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I}", "model", run->model, "texts",
                   texts, "prompt_tokens", (json_int_t)read, "kept_tokens", (json_int_t)kept, "tokens",
                   (json_int_t)tokens, "states", (json_int_t)r->states, "state_bytes",
                   (json_int_t)r->state_bytes, "seconds", number_json(r->seconds), "budget_bytes",
                   (json_int_t)r->memory.budget, "planned_peak_bytes", (json_int_t)r->memory.planned_peak,
                   "measured_peak_bytes", (json_int_t)r->memory.measured_peak);
}

static void print_prompts(const struct lines *prompts, const neap_prompts_result *r) {
  int64_t read = 0, kept = 0, tokens = 0;
  for (int64_t i = 0; i < r->count; i++) {
    printf("%s", prompts->list[i]);
    fwrite(r->of[i].text, 1, r->of[i].length, stdout);
    printf("\n");
    read += r->of[i].prompt_tokens, kept += r->of[i].kept_tokens, tokens += r->of[i].tokens;
  }
  fprintf(stderr, "%lld tokens after %lld prompts of %lld, of which %lld were not read again; %s, in %s",
          (long long)tokens, (long long)r->count, (long long)read, (long long)kept,
          duration_text(r->seconds).text, bytes_text(r->memory.measured_peak).text);
  if (r->states > 0)
    fprintf(stderr, " and %lld states of %s", (long long)r->states, bytes_text(r->state_bytes).text);
  fprintf(stderr, "\n");
}

static int generate_lines(const struct verb *verb, const struct settings *s, const char *folder,
                          const neap_train_options *run, const struct lines *prompts) {
  neap_prompts_result result;
  const neap_prompts_options options = {.generate = options_of(s, folder, run, NULL),
                                        .prompts = (const char *const *)prompts->list,
                                        .count = (int64_t)prompts->count,
                                        .states = s->states == 0  ? -1
                                                  : s->states < 0 ? 0
                                                                  : s->states};
  const neap_status status = neap_generate_prompts(&options, &result);
  int printed = EXIT_DONE;
  if (status == NEAP_OVER_BUDGET && result.smallest_budget > 0) tell_smallest(&s->a, result.smallest_budget);
  if (status != NEAP_OK)
    printed = report_failure(verb, status);
  else if (s->a.json)
    printed = print_json(add_run(prompts_json(run, prompts, &result), folder, run->data));
  else
    print_prompts(prompts, &result);
  neap_prompts_result_free(&result);
  return printed;
}

static int generate_file(const struct verb *verb, const struct settings *s, const char *folder,
                         const neap_train_options *run) {
  struct lines prompts = {0};
  if (s->prompt != NULL) return report_usage(verb, "--prompt and --prompts are both given; give one of them");
  int result = read_lines(verb, s->prompts, &prompts);
  if (result == EXIT_DONE && prompts.count == 0)
    result = report_usage(verb, "--prompts %s: there are no lines", s->prompts);
  if (result == EXIT_DONE) result = generate_lines(verb, s, folder, run, &prompts);
  free_lines(&prompts);
  return result;
}

int read_language_model(const struct verb *verb, const struct arguments *given, const char **folder,
                        struct arguments *run) {
  int result = EXIT_DONE;
  if (given->operands.count == 0)
    return report_usage(verb, "the folder of a checkpoint, or a model file, is missing");
  *folder = given->operands.values[0];
  if (neap_model_names_file(*folder)) { /* a model as it comes, which nobody trained here */
    *run = (struct arguments){.options = {.model = *folder}};
    *folder = NULL;
  } else {
    result = read_run(verb, *folder, NULL, run);
  }
  const int threads = given->options.session.threads;
  if (result == EXIT_DONE) result = prepare_threads(threads > 0 ? threads : run->options.session.threads);
  return result;
}

int run_generate(const struct verb *verb, int count, char **arguments) {
  struct settings s = {.tokens = 200, .temperature = 0.8, .states = -1};
  struct arguments run;
  const char *folder = NULL;
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  if (s.prompts == NULL && s.states >= 0)
    return report_usage(verb, "--states %lld does nothing without --prompts FILE", (long long)s.states);
  const int result = read_language_model(verb, &s.a, &folder, &run);
  if (result != EXIT_DONE) return result;
  return s.prompts != NULL ? generate_file(verb, &s, folder, &run.options)
                           : generate_into(verb, &s, folder, &run.options);
}
