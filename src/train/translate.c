/* Translates lines with a trained model of pairs, by beam search.
 *
 * Lines whose sources have one length, rounded up, are translated together, a number at a time. Their sources
 * are read once; then each prediction reads the last token of each hypothesis and gives the logits of the
 * next. The source's and earlier tokens' states are in the session's memory, by hypothesis
 * (zoo_build_decoder): each step says which hypothesis of the step before a row continues.
 *
 * A session is for sources of one length and for translations up to another length. Longer ones continue in
 * the next session, which reads their tokens so far again. All shapes follow from a line, the options and the
 * number of its tokens so far: the neighbours of a line change nothing. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/parallel.h"
#include "model/model.h"
#include "session/session.h"
#include "text/tokenizer_file.h"
#include "train/base_weights.h"
#include "train/beam.h"
#include "train/checkpoint.h"
#include "train/epochs.h"
#include "train/model_data.h"
#include "weights/variables.h"

enum {
  LENGTH_STEP = 8,   /* lengths of graphs are multiples of it */
  FIRST_LENGTH = 32, /* of translations in the first session of short sources */
  BATCH_TOKENS = 512 /* of the sources that are translated together, where nothing else is said */
};

struct line {
  size_t index;          /* among those that were given */
  int64_t count, length; /* of its tokens; of its source with </s>, rounded up */
  int32_t *ids;
  struct beam beam;
};

struct translation {
  const neap_translate_options *options;
  const neap_model *model; /* of the options, or: */
  neap_model *own_model;   /* opened here; NULL: the caller has it open */
  struct region region;
  struct loader data;                /* empty where the checkpoint has the tokenizer */
  struct tokenizer *own;             /* that of the checkpoint */
  const struct tokenizer *tokenizer; /* either */
  const char **weights;              /* files, of which the mean is taken */
  int32_t weight_count;
  neap_model_options shape;
  struct beam_rules rules;
  size_t count;
  struct line *lines; /* [count], by length */
  struct line **left; /* [count] of a length, that are not done */
  neap_translate_result *result;

  /* For sources of one length and translations up to another one. */
  neap_graph *graph;
  neap_session *session;
  int64_t together; /* lines */
  int32_t *source, *tokens, *position;
  int32_t *parent, *held; /* the model has one of them */
  float *logits;
  struct beam_candidate *candidates; /* [together][2 width] */
};

/* ---- The lines and the model ---- */

static neap_status check_options(const neap_translate_options *o) {
  RETURN_IF(o->model == NULL || o->checkpoint == NULL || o->line == NULL, NEAP_INVALID_ARGUMENT,
            "translate: give a model, the folder of its checkpoint and a function that takes lines");
  RETURN_IF(o->beam < 1 || o->beam > NEAP_MAX_BEAM, NEAP_INVALID_ARGUMENT,
            "translate: a beam of %d is not possible; it must be 1 to %d", o->beam, NEAP_MAX_BEAM);
  RETURN_IF(!isfinite(o->length_penalty), NEAP_INVALID_ARGUMENT,
            "translate: the length penalty must be finite");
  RETURN_IF(!(o->length_factor >= 0 && o->length_factor <= 1000) ||
                !(o->length_offset >= 0 && o->length_offset <= 1e6),
            NEAP_INVALID_ARGUMENT,
            "translate: the longest translation must be 0 to 1000 times the source and 0 to 1000000 tokens");
  RETURN_IF(o->session.threads < 0 || o->shape.batch < 0 || o->average < 0, NEAP_INVALID_ARGUMENT,
            "translate: threads, batch and average must not be negative (got %d, %lld and %d)",
            o->session.threads, (long long)o->shape.batch, (int)o->average);
  RETURN_IF(o->average > 0 && o->weights != NULL, NEAP_INVALID_ARGUMENT,
            "translate: got a mean of %d and the weights %s; give one of them", o->average, o->weights);
  return NEAP_OK;
}

static neap_status open_model(struct translation *t) {
  const neap_translate_options *o = t->options;
  neap_model_description about;
  TRY(model_take(o->opened, o->model, &t->own_model, &t->model));
  TRY(neap_model_describe(t->model, &about));
  RETURN_IF(about.task != NEAP_TASK_PAIRS, NEAP_INVALID_ARGUMENT,
            "model '%s' does not translate: it does not learn from pairs of sequences", o->model);
  return NEAP_OK;
}

static neap_status find_weights(struct translation *t) {
  const neap_translate_options *o = t->options;
  t->weight_count = o->average > 0 ? o->average : 1;
  if (o->average > 0) return epochs_find(o->checkpoint, o->average, &t->region, &t->weights);
  t->weights = region_alloc(&t->region, 1, sizeof *t->weights);
  RETURN_IF_NULL(t->weights);
  t->weights[0] = o->weights;
  if (o->weights != NULL) return NEAP_OK;
  TRY(checkpoint_find_weights(o->checkpoint, o->best, &t->region, &t->weights[0]));
  return NEAP_OK;
}

/* Finds the tokenizer: that of the checkpoint or, without one, the same learned from the data again. */
static neap_status find_tokenizer(struct translation *t) {
  const neap_translate_options *o = t->options;
  const char *path = region_format(&t->region, "%s/" CHECKPOINT_TOKENIZER, o->checkpoint);
  RETURN_IF_NULL(path);
  if (file_exists(path)) {
    TRY(tokenizer_read(path, &t->own));
    t->tokenizer = t->own;
  } else {
    RETURN_IF(o->data == NULL, NEAP_INVALID_ARGUMENT, "%s: is missing; name the data of the run", path);
    const struct data_choice choice = {
        .model = t->model, .name = o->data, .shape = &o->shape, .threads = team_size(o->session.threads)};
    TRY(open_data(&choice, &t->data));
    t->tokenizer = t->data.source.tokenizer;
  }
  RETURN_IF(t->tokenizer == NULL || tokenizer_special(t->tokenizer, "</s>") < 0, NEAP_INVALID_ARGUMENT,
            "%s: its tokens are not those of pairs of sequences", t->own != NULL ? path : o->data);
  t->shape = o->shape;
  if (t->shape.classes < tokenizer_size(t->tokenizer)) t->shape.classes = tokenizer_size(t->tokenizer);
  t->rules = (struct beam_rules){.width = o->beam,
                                 .penalty = o->length_penalty,
                                 .vocabulary = t->shape.classes,
                                 .tokens = tokenizer_size(t->tokenizer),
                                 .end = tokenizer_special(t->tokenizer, "</s>")};
  return NEAP_OK;
}

static int by_length(const void *a, const void *b) {
  const struct line *x = a, *y = b;
  if (x->length != y->length) return x->length < y->length ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static bool is_blank(const char *line) { return line[strspn(line, " \t")] == '\0'; }

static int64_t round_up(int64_t length) { return (length + LENGTH_STEP - 1) / LENGTH_STEP * LENGTH_STEP; }

static neap_status read_line(struct translation *t, const char *text, size_t index, struct token_ids *ids) {
  struct line *line = &t->lines[index];
  *line = (struct line){.index = index};
  if (is_blank(text)) {
    line->beam.done = true;
    return NEAP_OK;
  }
  const neap_translate_options *o = t->options;
  ids->count = 0;
  TRY(tokenizer_encode(
      t->tokenizer,
      &(struct text){.bytes = text, .length = strlen(text), .name = "input", .line = (int64_t)index + 1},
      ids));
  line->count = (int64_t)ids->count;
  line->length = round_up(line->count + 1);
  line->ids = region_copy(&t->region, ids->data, ids->count, sizeof *ids->data);
  RETURN_IF_NULL(line->ids);
  const double most = o->length_factor * (double)(line->count + 1) + o->length_offset;
  return beam_start(&t->rules, (int64_t)most, &t->region, &line->beam);
}

static neap_status read_lines(struct translation *t, const char *const *lines) {
  struct token_ids ids = {0};
  neap_status status = NEAP_OK;
  t->lines = region_alloc(&t->region, t->count, sizeof *t->lines);
  t->left = region_alloc(&t->region, t->count, sizeof *t->left);
  RETURN_IF(t->lines == NULL || t->left == NULL, NEAP_OUT_OF_MEMORY, "%zu lines: out of memory", t->count);
  for (size_t i = 0; i < t->count && status == NEAP_OK; i++) status = read_line(t, lines[i], i, &ids);
  vector_free(&ids);
  qsort(t->lines, t->count, sizeof *t->lines, by_length);
  return status;
}

/* ---- Sessions ---- */

static void close_session(struct translation *t) {
  neap_memory memory;
  if (t->session != NULL) {
    neap_session_memory(t->session, &memory);
    if (memory.measured_peak > t->result->memory.measured_peak) t->result->memory = memory;
  }
  neap_session_free(t->session);
  neap_graph_free(t->graph);
  free(t->logits);
  free(t->candidates);
  t->session = NULL;
  t->graph = NULL;
  t->logits = NULL;
  t->candidates = NULL;
}

/* Opens a session for this many lines together. NEAP_OVER_BUDGET: `smallest`, unless NULL, says what one
 * needs. */
static neap_status try_session(struct translation *t, int64_t source, int64_t target, uint64_t *smallest) {
  neap_session_options session = t->options->session;
  session.predict = true;
  if (t->options->checkpoint != NULL)
    TRY(checkpoint_read_adapters(t->options->checkpoint, &t->region, &session));
  session.threads = team_size(session.threads);
  t->shape.batch = t->together;
  t->shape.source_length = source;
  t->shape.length = target;
  TRY(model_build_decoder(t->model, &t->shape, t->rules.width, &t->graph));
  return neap_session_create(t->graph, &session, smallest, &t->session);
}

/* Opens a session, with fewer lines together if the budget has no room for more. */
static neap_status open_session(struct translation *t, int64_t source, int64_t target) {
  neap_status status;
  t->together = t->options->shape.batch;
  if (t->together == 0) t->together = source < BATCH_TOKENS ? BATCH_TOKENS / source : 1;
  RETURN_IF(t->together > INT32_MAX / t->rules.width / (target + 1), NEAP_TOO_LARGE,
            "%" PRId64 " lines together, each of %d hypotheses of %" PRId64 " tokens, are too many",
            t->together, t->rules.width, target);
  for (;; t->together = (t->together + 1) / 2) {
    const bool last = t->together == 1;
    status = try_session(t, source, target, last ? &t->result->smallest_budget : NULL);
    if (status != NEAP_OVER_BUDGET || last) break;
    close_session(t);
  }
  TRY(status);
  TRY(base_weights_take(t->options->checkpoint, t->model, &t->shape, t->session));
  TRY(neap_session_load_mean(t->session, t->weights, t->weight_count));
  TRY(session_need_finite(t->session, t->weights[0]));
  t->source = neap_session_input(t->session, "source");
  t->tokens = neap_session_input(t->session, "tokens");
  t->position = neap_session_input(t->session, "position");
  t->parent = neap_session_input(t->session, "parent");
  t->held = neap_session_input(t->session, "held");
  RETURN_IF(!t->source || !t->tokens || !t->position || (!t->parent && !t->held), NEAP_INTERNAL,
            "model '%s' does not have the inputs of a translation", t->options->model);
  neap_variable logits;
  TRY(neap_session_output(t->session, "logits", &logits, NULL));
  t->logits = malloc((size_t)logits.elements * sizeof *t->logits);
  t->candidates = malloc((size_t)t->together * 2 * (size_t)t->rules.width * sizeof *t->candidates);
  RETURN_IF(t->logits == NULL || t->candidates == NULL, NEAP_OUT_OF_MEMORY, "translation: out of memory");
  return NEAP_OK;
}

/* ---- Steps ---- */

static void fill_source(const struct translation *t, int64_t place, const struct line *line) {
  int32_t *row = t->source + place * t->shape.source_length;
  const int64_t count = line != NULL ? line->count : 0;
  for (int64_t i = 0; i < t->shape.source_length; i++)
    row[i] = i < count ? line->ids[i] : i == count ? t->rules.end : -1;
}

/* Makes row `row` read `token` at time `time`, after the tokens that row `parent` has read. */
static void fill_row(const struct translation *t, int64_t row, int32_t token, int64_t parent, int64_t time) {
  const int64_t length = t->shape.length, rows = t->together * t->rules.width;
  t->tokens[row] = token;
  if (t->parent != NULL) t->parent[row] = time == 0 ? -1 : (int32_t)parent;
  if (t->held == NULL) return;
  int32_t *held = t->held + row * length;
  for (int64_t i = 0; i < length; i++)
    held[i] = (int32_t)(i < time ? parent * length + i : i == time ? rows * length + row : -1);
}

/* Fills the hypotheses of a line; rows without one read anything. Up to time `begun` they read their existing
 * tokens; after it each continues a hypothesis of the step before. */
static void fill_hypotheses(const struct translation *t, int64_t place, const struct line *line, int64_t time,
                            int64_t begun) {
  const int64_t width = t->rules.width;
  for (int32_t h = 0; h < width; h++) {
    const bool any = line != NULL && !line->beam.done && h < line->beam.alive;
    const int32_t token = any && time > 0 ? beam_tokens(&line->beam, h)[time - 1] : t->rules.end,
                  parent = any && time > begun ? line->beam.parents[h] : h;
    fill_row(t, place * width + h, token, place * width + parent, time);
  }
}

/* Reads the tokens of a time. From `begun` on each of the lines gets one more. */
static neap_status run_step(struct translation *t, struct line **lines, int64_t count, int64_t time,
                            int64_t begun) {
  const int64_t width = t->rules.width, values = width * t->rules.vocabulary;
  for (int64_t i = 0; i < t->together; i++) fill_hypotheses(t, i, i < count ? lines[i] : NULL, time, begun);
  *t->position = (int32_t)time;
  TRY(neap_session_predict(t->session));
  t->result->steps++;
  if (time < begun) return NEAP_OK;
  TRY(neap_session_output(t->session, "logits", NULL, t->logits));
  const int threads = team_size(t->options->session.threads);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t i = 0; i < count; i++)
    if (!lines[i]->beam.done)
      beam_advance(&t->rules, &lines[i]->beam, t->logits + i * values, t->candidates + i * 2 * width);
  return NEAP_OK;
}

static bool all_done(struct line *const *lines, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!lines[i]->beam.done) return false;
  return true;
}

/* Translates up to the length of the session. The lines have translations of one length so far. */
static neap_status run_batch(struct translation *t, struct line **lines, int64_t count) {
  const int64_t begun = lines[0]->beam.length;
  for (int64_t i = 0; i < t->together; i++) fill_source(t, i, i < count ? lines[i] : NULL);
  TRY(neap_session_prepare(t->session));
  for (int64_t time = 0; time < t->shape.length && !all_done(lines, count); time++)
    TRY(run_step(t, lines, count, time, begun));
  return NEAP_OK;
}

static int64_t find_left(const struct translation *t, size_t first, size_t end) {
  int64_t left = 0;
  for (size_t i = first; i < end; i++)
    if (!t->lines[i].beam.done) t->left[left++] = &t->lines[i];
  return left;
}

/* Translates lines whose sources have one length, in sessions for translations of twice their length, then
 * for twice as long ones, up to the longest that is allowed. */
static neap_status translate_group(struct translation *t, size_t first, size_t end) {
  const neap_translate_options *o = t->options;
  const int64_t source = t->lines[first].length,
                most = round_up((int64_t)(o->length_factor * (double)source + o->length_offset) + 1);
  int64_t left = find_left(t, first, end), target = 2 * source > FIRST_LENGTH ? 2 * source : FIRST_LENGTH;
  for (; left > 0; target *= 2) {
    if (target > most) target = most;
    TRY(open_session(t, source, target));
    for (int64_t i = 0; i < left; i += t->together)
      TRY(run_batch(t, t->left + i, left - i < t->together ? left - i : t->together));
    close_session(t);
    left = find_left(t, first, end);
  }
  return NEAP_OK;
}

static neap_status translate_all(struct translation *t) {
  for (size_t first = 0, end; first < t->count; first = end) {
    for (end = first + 1; end < t->count && t->lines[end].length == t->lines[first].length;) end++;
    TRY(translate_group(t, first, end));
  }
  return NEAP_OK;
}

/* ---- The translations ---- */

/* Makes one line of UTF-8 of any bytes: invalid ones become U+FFFD, a control character a space. `clean` has
 * room for three times as many bytes, and the 0 at the end. */
static void clean_line(const char *text, size_t length, char *clean) {
  static const char replacement[] = "\xef\xbf\xbd";
  for (size_t i = 0; i < length;) {
    uint32_t code;
    const int bytes = utf8_decode(text + i, length - i, &code);
    const bool control = bytes == 1 && (code < ' ' || code == 127);
    const size_t take = control || bytes == 0 ? 0 : (size_t)bytes;
    if (take > 0)
      memcpy(clean, text + i, take);
    else
      memcpy(clean, control ? " " : replacement, control ? 1 : 3);
    clean += take > 0 ? take : control ? 1 : 3;
    i += bytes > 0 ? (size_t)bytes : 1;
  }
  *clean = '\0';
}

static neap_status give_line(struct translation *t, const struct line *line) {
  const neap_translate_options *o = t->options;
  const struct beam *beam = &line->beam;
  char *text = NULL, *clean;
  size_t length = 0;
  const bool blank = line->count == 0;
  RETURN_IF(!blank && beam->best_length < 0, NEAP_DIVERGED,
            "line %zu has no translation: the model's output is not finite", line->index + 1);
  TRY(tokenizer_decode(t->tokenizer, beam->best, blank ? 0 : (size_t)beam->best_length, &text, &length));
  clean = malloc(3 * length + 1);
  if (clean != NULL) clean_line(text, length, clean);
  free(text);
  RETURN_IF_NULL(clean);
  t->result->tokens += blank ? 0 : beam->best_length + 1;
  const int stop = o->line(o->context, line->index, clean, blank ? 0 : beam->best_score);
  free(clean);
  RETURN_IF(stop != 0, NEAP_INTERRUPTED, "stopped on request at line %zu", line->index + 1);
  return NEAP_OK;
}

static int by_index(const void *a, const void *b) {
  const struct line *x = a, *y = b;
  return (x->index > y->index) - (x->index < y->index);
}

static neap_status run(struct translation *t, const char *const *lines) {
  TRY(check_options(t->options));
  TRY(open_model(t));
  TRY(find_weights(t));
  TRY(find_tokenizer(t));
  TRY(read_lines(t, lines));
  TRY(translate_all(t));
  qsort(t->lines, t->count, sizeof *t->lines, by_index);
  for (size_t i = 0; i < t->count; i++) TRY(give_line(t, &t->lines[i]));
  return NEAP_OK;
}

neap_status neap_translate(const neap_translate_options *options, const char *const *lines, size_t count,
                           neap_translate_result *result) {
  NEED(options);
  NEED(result);
  if (count > 0) NEED(lines);
  for (size_t i = 0; i < count; i++) NEED(lines[i]);
  struct translation t = {.options = options, .count = count, .result = result};
  *result = (neap_translate_result){0};
  const neap_status status = run(&t, lines);
  close_session(&t);
  loader_close(&t.data);
  tokenizer_free(t.own);
  neap_model_close(t.own_model);
  region_free(&t.region);
  return status;
}
