/* neap translate */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/lines.h"
#include "shared/run_settings.h"
#include "shared/threads.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *input, *reference, *output;
  int64_t lines;
  double penalty, factor, offset;
  int beam, tokenize;
};

const neap_setting translate_options[] = {
    OWN_OPTION(struct settings, "input", "FILE", "standard input", "file of lines to translate", TEXT, input,
               .flags = NEAP_SETTING_PATH),
    OWN_OPTION(struct settings, "reference", "FILE", NULL, "file of reference translations, for BLEU", TEXT,
               reference, .flags = NEAP_SETTING_PATH),
    OWN_OPTION(struct settings, "tokenize", "13a|none", "13a",
               "tokens of BLEU: 13a separates punctuation; none splits at white space", WORD, tokenize),
    OWN_OPTION(struct settings, "output", "FILE", "standard output", "file for the translations", TEXT,
               output, .flags = NEAP_SETTING_PATH),
    OWN_OPTION(struct settings, "beam", "N", "4", "number of hypotheses per line", INT, beam, .least = 1,
               .below = NEAP_MAX_BEAM + 1),
    OWN_OPTION(struct settings, "length-penalty", "X", "1", "divide scores by tokens^X", NUMBER, penalty),
    OWN_OPTION(struct settings, "length-factor", "X", "1.2",
               "limit a translation to X tokens for each source token", NUMBER, factor),
    OWN_OPTION(struct settings, "length-offset", "X", "10", "and add X tokens to that limit", NUMBER, offset),
    OWN_OPTION(struct settings, "lines", "N", "by their length",
               "number of lines translated together; fewer if the budget is too small", INTEGER, lines,
               .least = 1, .below = 2147483648.0),
    {0},
};

/* ---- Texts ---- */

static int read_texts(const struct verb *verb, const struct settings *s, struct lines *input,
                      struct lines *references) {
  int result = read_lines(verb, s->input, input);
  if (s->reference == NULL || result != EXIT_DONE) return result;
  result = read_lines(verb, s->reference, references);
  if (result == EXIT_DONE && input->count != references->count)
    return report_usage(verb,
                        "--reference %s: has %zu lines, but there are %zu to translate; give one for each",
                        s->reference, references->count, input->count);
  if (result == EXIT_DONE && input->count == 0)
    return report_usage(verb, "--reference %s: there are no lines, so BLEU is undefined", s->reference);
  return result;
}

/* ---- The translation ---- */

/* As the library's callback: not 0 stops, where memory is out. */
static int take_line(void *context, size_t index, const char *text, double score) {
  (void)index;
  (void)score;
  return !add_line(context, text);
}

static int translate(const struct verb *verb, const char *folder, const struct settings *s,
                     const neap_train_options *run, const struct lines *input, struct lines *output,
                     neap_translate_result *result) {
  const neap_session_options *given = &s->a.options.session;
  neap_translate_options options = {.model = run->model,
                                    .opened = run->opened,
                                    .checkpoint = folder,
                                    .average = s->a.options.average,
                                    .best = s->a.options.best,
                                    .data = run->data,
                                    .shape = run->shape,
                                    .session = {.budget = given->budget,
                                                .budget_fraction = given->budget_fraction,
                                                .bits = run->session.bits,
                                                .backend = run->session.backend,
                                                .threads = run->session.threads},
                                    .beam = s->beam,
                                    .length_penalty = s->penalty,
                                    .length_factor = s->factor,
                                    .length_offset = s->offset,
                                    .line = take_line,
                                    .context = output};
  options.shape.batch = s->lines;
  const neap_status status = neap_translate(&options, (const char *const *)input->list, input->count, result);
  if (status == NEAP_OVER_BUDGET && result->smallest_budget > 0)
    tell_smallest(&s->a, result->smallest_budget);
  if (status == NEAP_INTERRUPTED) return report_failure(verb, no_memory());
  return status != NEAP_OK ? report_failure(verb, status) : EXIT_DONE;
}

/* ---- Output ---- */

static int write_lines(const struct verb *verb, const char *path, const struct lines *lines) {
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  for (size_t i = 0; file != NULL && i < lines->count; i++) fprintf(file, "%s\n", lines->list[i]);
  const bool bad = file == NULL || ferror(file) != 0;
  const bool whole = (file == NULL || fclose(file) == 0) && !bad;
  const int result = !whole         ? report_failure(verb, no_memory())
                     : path != NULL ? write_text_file(path, text, size)
                                    : EXIT_DONE;
  if (whole && path == NULL) fwrite(text, 1, size, stdout);
  free(text);
  return result;
}

static json_t *lines_json(const struct lines *lines) {
  json_t *list = json_array();
  for (size_t i = 0; i < lines->count; i++) json_array_append_new(list, json_string(lines->list[i]));
  return list;
}

static json_t *bleu_json(const neap_bleu *b) {
  return json_pack("{s:f, s:[f, f, f, f], s:f, s:I, s:I}", "score", b->score, "precisions", b->precisions[0],
                   b->precisions[1], b->precisions[2], b->precisions[3], "brevity_penalty", b->brevity,
                   "hypothesis_length", (json_int_t)b->hypothesis_length, "reference_length",
                   (json_int_t)b->reference_length);
}

static json_t *result_json(const struct settings *s, const neap_train_options *run,
                           const struct lines *output, const neap_translate_result *r, double seconds,
                           const neap_bleu *bleu) {
  return json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:o, s:o}", "model", run->model, "lines",
                   (json_int_t)output->count, "records", (json_int_t)output->count, "tokens",
                   (json_int_t)r->tokens, "steps", (json_int_t)r->steps, "seconds", seconds,
                   "planned_peak_bytes", (json_int_t)r->memory.planned_peak, "measured_peak_bytes",
                   (json_int_t)r->memory.measured_peak, "bleu", bleu != NULL ? bleu_json(bleu) : json_null(),
                   "translations", s->output == NULL ? lines_json(output) : json_null());
}

static void print_bleu(const neap_bleu *b) {
  fprintf(
      stderr,
      "BLEU          %.2f: precisions %.1f, %.1f, %.1f, %.1f; brevity penalty %.3f, of %lld words for %lld\n",
      b->score, b->precisions[0], b->precisions[1], b->precisions[2], b->precisions[3], b->brevity,
      (long long)b->hypothesis_length, (long long)b->reference_length);
}

static int tell(const struct verb *verb, const struct settings *s, const neap_train_options *run,
                const struct lines *output, const struct lines *references, const neap_translate_result *r,
                double seconds) {
  neap_bleu bleu;
  int result = s->a.json && s->output == NULL ? EXIT_DONE : write_lines(verb, s->output, output);
  if (result != EXIT_DONE) return result;
  if (s->reference != NULL) {
    const neap_status status =
        neap_bleu_score((const char *const *)output->list, (const char *const *)references->list,
                        output->count, s->tokenize == 1 ? NEAP_BLEU_NONE : NEAP_BLEU_13A, &bleu);
    if (status != NEAP_OK) return report_failure(verb, status);
    if (!s->a.json) print_bleu(&bleu);
  }
  if (s->a.json)
    result = print_json(add_run(result_json(s, run, output, r, seconds, s->reference != NULL ? &bleu : NULL),
                                s->a.operands.values[0], run->data));
  return result;
}

int run_translate(const struct verb *verb, int count, char **arguments) {
  struct settings s = {.penalty = 1, .factor = 1.2, .offset = 10, .beam = 4};
  struct arguments run;
  if (!read_arguments(verb, count, arguments, &s, &s.a)) return EXIT_USAGE;
  const struct operands *operands = &s.a.operands;
  if (operands->count == 0) return report_usage(verb, "the folder of a checkpoint is missing");
  struct lines input = {0}, references = {0}, output = {0};
  neap_translate_result translated;
  const char *folder = operands->values[0];
  int result = read_run(verb, folder, &s.a, &run);
  if (result == EXIT_DONE) result = read_texts(verb, &s, &input, &references);
  if (result == EXIT_DONE) result = prepare_threads(run.options.session.threads);
  const double begun = seconds_now();
  if (result == EXIT_DONE) result = translate(verb, folder, &s, &run.options, &input, &output, &translated);
  if (result == EXIT_DONE)
    result = tell(verb, &s, &run.options, &output, &references, &translated, seconds_now() - begun);
  free_lines(&input);
  free_lines(&references);
  free_lines(&output);
  return result;
}
