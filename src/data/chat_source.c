/* Reads conversations as data:
 * "chat:FILE|DIR[,tokens=bytes|characters|N|FILE.json][,test=FILE][,holdout=0.1][,seed=0]", in the JSON lines
 * or the array of chat_lines.h. A folder has train.jsonl and, to test with, valid.jsonl or else test.jsonl.
 * If there is no test file, a share of the training lines is held out.
 *
 * Each conversation is rendered by a chat template and converted to tokens once; they go to a temporary file,
 * 4 bytes a token. The process holds a struct conversation of 16 bytes for each, and 1 byte a line if some
 * are held out. A token that carries no loss is written as its complement.
 *
 * A record is one conversation, alone in its sequence, or a row of several (packing.h), in which each token
 * has its place within its own conversation. Rows are as short as packs well, because they set the memory. A
 * conversation longer than a sequence is cut, or left out if the user asks for that. A conversation whose
 * remaining tokens carry no loss is left out, too. With packing the process holds 12 bytes more per
 * conversation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/chat_lines.h"
#include "data/holdout.h"
#include "data/packing.h"
#include "data/readers.h"
#include "data/source_tokenizer.h"
#include "template/chat_template.h"
#include "text/tokenizer.h"

struct conversation {
  int64_t first; /* of its tokens in the file */
  int32_t count;
};

struct chat_source {
  const char *path; /* for messages */
  int descriptor;   /* of the tokens */
  const struct conversation *records[SPLITS];
  struct packing packed[SPLITS]; /* where records are rows */
};

/* Returns the number of tokens of a conversation that the model sees: all but the last, which nothing
 * follows. */
static int32_t tokens_seen(const struct conversation *c) { return c->count - 1; }

static int64_t length_of(const struct source *source, enum split split, int64_t record) {
  const struct chat_source *chat = source->context;
  return tokens_seen(&chat->records[split][record]);
}

static neap_status read_record(const struct source *source, enum split split, int64_t record,
                               const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)draw;
  const struct chat_source *chat = source->context;
  const struct conversation *r = &chat->records[split][record];
  lengths[0] = r->count;
  if (fields[0] == NULL) return NEAP_OK;
  return file_need_at(chat->path, chat->descriptor, (uint64_t)r->first * sizeof(int32_t), fields[0],
                      (size_t)r->count * sizeof(int32_t));
}

/* ---- Rows of several ---- */

enum { ROW_TOKENS, ROW_LABELS, ROW_PLACES, ROW_FIELDS };

static int64_t length_of_row(const struct source *source, enum split split, int64_t record) {
  (void)split, (void)record;
  return source->sequence_length;
}

/* Reads `count` tokens from token `first` of the file on, unless `to` is NULL; those that carry no loss are
 * still complements. */
static neap_status read_tokens(const struct chat_source *chat, int64_t first, int64_t count, int32_t *to) {
  if (to == NULL) return NEAP_OK;
  return file_need_at(chat->path, chat->descriptor, (uint64_t)first * sizeof *to, to,
                      (size_t)count * sizeof *to);
}

static neap_status read_row(const struct source *source, enum split split, int64_t record,
                            const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)draw, (void)lengths;
  const struct chat_source *chat = source->context;
  const struct packing *p = &chat->packed[split];
  int32_t *tokens = fields[ROW_TOKENS], *labels = fields[ROW_LABELS], *places = fields[ROW_PLACES];
  const int64_t length = source->sequence_length;
  int64_t at = 0;
  for (int64_t i = p->first[record]; i < p->first[record + 1]; i++) {
    const struct conversation *c = &chat->records[split][p->members[i]];
    const int32_t count = tokens_seen(c);
    TRY(read_tokens(chat, c->first, count, tokens != NULL ? tokens + at : NULL));
    TRY(read_tokens(chat, c->first + 1, count, labels != NULL ? labels + at : NULL));
    for (int32_t k = 0; places != NULL && k < count; k++) places[at + k] = k;
    at += count;
  }
  for (int64_t k = 0; tokens != NULL && k < length; k++)
    tokens[k] = k >= at ? 0 : tokens[k] < 0 ? ~tokens[k] : tokens[k];
  for (int64_t k = 0; labels != NULL && k < length; k++)
    labels[k] = k < at && labels[k] >= 0 ? labels[k] : -1;
  for (int64_t k = at; places != NULL && k < length; k++) places[k] = (int32_t)(k - at);
  return NEAP_OK;
}

/* Packs the conversations of a part; the result is in the region. */
static neap_status pack_part(struct region *region, const struct conversation *records, int64_t count,
                             int64_t length, struct packing *packing) {
  int32_t *lengths = malloc((size_t)(count > 0 ? count : 1) * sizeof *lengths);
  RETURN_IF_NULL(lengths);
  for (int64_t i = 0; i < count; i++) lengths[i] = tokens_seen(&records[i]);
  const neap_status status = packing_make(region, count, lengths, length, packing);
  free(lengths);
  return status;
}

/* Finds the places of a row, no fewer than those of the longest conversation: the fewest that leave at most
 * 1/20 empty, or else those that leave the least empty; but no more than a sequence has, or than the training
 * conversations fill in a batch. */
static neap_status find_row_length(const struct source *source, const struct conversation *records,
                                   int64_t longest, int64_t *length) {
  enum { PARTS = 8, FULL = 20 };
  const struct task *task = &source->task;
  const int64_t count = source->records[SPLIT_TRAIN], places = source->tokens[SPLIT_TRAIN] - count,
                batch = task->batch > 0 ? task->batch : 1, filled = (places + batch - 1) / batch,
                most = filled < task->length ? filled : task->length;
  int64_t least = INT64_MAX;
  *length = longest;
  for (int64_t k = PARTS, row = longest; k == PARTS || row <= most; k++, row = longest * k / PARTS) {
    struct region region = {0};
    struct packing packing;
    const neap_status status = pack_part(&region, records, count, row, &packing);
    region_free(&region);
    TRY(status);
    const int64_t all = packing.rows * row;
    if (all < least) *length = row;
    if (all < least) least = all;
    if ((all - places) * FULL <= all) break;
  }
  return NEAP_OK;
}

/* Packs the conversations into rows, which become the source's records. */
static neap_status pack(struct source *source, struct chat_source *chat, int64_t longest) {
  static const char *const names[ROW_FIELDS] = {"tokens", "label", "place"};
  int64_t *length = &source->sequence_length;
  source->conversations = source->records[SPLIT_TRAIN];
  *length = source->task.length;
  if (source->task.any_length) TRY(find_row_length(source, chat->records[SPLIT_TRAIN], longest, length));
  for (int s = 0; s < SPLITS; s++) {
    TRY(pack_part(&source->region, chat->records[s], source->records[s], *length, &chat->packed[s]));
    source->records[s] = chat->packed[s].rows;
  }
  source->read = read_row;
  source->length = length_of_row;
  for (int i = 0; i < ROW_FIELDS; i++)
    TRY(source_add_field(source, (struct field){names[i], NEAP_I32, 1, {*length}, false}));
  return NEAP_OK;
}

/* ---- Preferences ---- */

enum { PAIR_TOKENS, PAIR_LABELS, PAIR_COUNTS, PAIR_REFERENCES, PAIR_FIELDS };

/* Reads a sequence of a pair into its half of the fields. */
static neap_status read_half(const struct source *source, const struct conversation *c, int half,
                             void *const *fields) {
  const struct chat_source *chat = source->context;
  const int64_t length = source->sequence_length;
  int32_t *tokens = fields[PAIR_TOKENS], *labels = fields[PAIR_LABELS];
  float *counts = fields[PAIR_COUNTS];
  const int32_t count = tokens_seen(c);
  int64_t counted = 0;
  if (tokens != NULL) tokens += half * length;
  if (labels != NULL) labels += half * length;
  TRY(read_tokens(chat, c->first, count, tokens));
  TRY(read_tokens(chat, c->first + 1, count, labels));
  for (int64_t k = 0; tokens != NULL && k < length; k++)
    tokens[k] = k >= count ? 0 : tokens[k] < 0 ? ~tokens[k] : tokens[k];
  for (int64_t k = 0; labels != NULL && k < length; k++) {
    labels[k] = k < count && labels[k] >= 0 ? labels[k] : -1;
    counted += labels[k] >= 0;
  }
  if (counts != NULL && labels != NULL) counts[half] = (float)counted;
  return NEAP_OK;
}

static neap_status read_pair(const struct source *source, enum split split, int64_t record,
                             const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)draw, (void)lengths;
  const struct chat_source *chat = source->context;
  const float *known = source->reference[split];
  float *reference = fields[PAIR_REFERENCES];
  for (int half = 0; half < 2; half++) {
    TRY(read_half(source, &chat->records[split][2 * record + half], half, fields));
    if (reference != NULL) reference[half] = known != NULL ? known[2 * record + half] : 0;
  }
  return NEAP_OK;
}

static neap_status keep_pairs(struct source *source, int64_t longest) {
  static const struct {
    const char *name;
    neap_dtype dtype;
    int rank;
  } fields[PAIR_FIELDS] = {
      {"tokens", NEAP_I32, 2}, {"label", NEAP_I32, 2}, {"count", NEAP_F32, 1}, {"reference", NEAP_F32, 1}};
  const int64_t length = source->task.any_length ? longest : source->task.length;
  source->conversations = source->records[SPLIT_TRAIN];
  source->preferences = true;
  source->sequence_length = length;
  source->read = read_pair;
  for (int i = 0; i < PAIR_FIELDS; i++)
    TRY(source_add_field(
        source, (struct field){fields[i].name, fields[i].dtype, fields[i].rank, {2, length}, false}));
  return NEAP_OK;
}

/* ---- Opening ---- */

struct words {
  const char *place, *tokens, *test, *holdout, *seed; /* NULL: not given */
};

/* State while a source is opened. */
struct work {
  struct source *source;
  struct chat_template *template;
  struct chat_ends around;   /* texts of the tokens that begin and end a sequence */
  const char *files[SPLITS]; /* NULL to test with: lines of the first are held out */
  const bool *held;          /* [held_count], the lines of the first; NULL: none is */
  int64_t held_count;
  int descriptor;  /* of the file that is written */
  int64_t written; /* tokens, or bytes of text */
  bool preference; /* records are pairs */
  bool dropped;    /* the first sequence of the pair is left out, and so is the second */
  VECTOR(struct conversation) records[SPLITS];
  int64_t longest, longest_record;         /* tokens of the longest record that there is, */
  const char *longest_file, *longest_unit; /* and where it is */
  struct chat_lines lines;                 /* that are open */
  struct chat_text text;
  struct token_ids ids;
  struct places ends;
};

/* Does something with each conversation that is read. */
typedef neap_status conversation_user(struct work *work, enum split split);

static void free_work(struct work *w) {
  for (int s = 0; s < SPLITS; s++) vector_free(&w->records[s]);
  chat_lines_close(&w->lines);
  chat_text_free(&w->text);
  vector_free(&w->ids);
  vector_free(&w->ends);
  chat_template_free(w->template);
}

/* Takes the text of a line that is no conversation, and ends it with the end-of-sequence token. */
static neap_status take_text(struct chat_text *out, const struct chat_message *text, const char *eos) {
  const size_t end = eos != NULL ? strlen(eos) : 0;
  out->text.count = out->spans.count = 0;
  TRY(vector_reserve(&out->text, text->length + end));
  if (text->length > 0) memcpy(out->text.data, text->content, text->length);
  if (end > 0) memcpy(out->text.data + text->length, eos, end);
  out->text.count = text->length + end;
  return vector_push(&out->spans, (struct chat_span){0, SIZE_MAX, 0});
}

/* Renders the line that was read last. */
static neap_status render(struct work *w) {
  const struct chat_sample *sample = &w->lines.sample;
  if (sample->messages.count == 0) return take_text(&w->text, &sample->text, w->around.eos);
  const neap_status status =
      chat_render(w->template, sample->messages.data, sample->messages.count, false, w->around, &w->text);
  if (status == NEAP_OK) return NEAP_OK;
  struct ending ending;
  ending_keep(&ending, status);
  return neap_fail(status, "%s: %s %lld: %s", w->lines.file.name, w->lines.unit, (long long)w->lines.record,
                   ending.message);
}

/* Calls `use` for each conversation of a file that belongs to one part, or to both (SPLITS). */
static neap_status walk_file(struct work *w, const char *path, bool divided, enum split only,
                             conversation_user *use) {
  const enum split own = path == w->files[SPLIT_TRAIN] ? SPLIT_TRAIN : SPLIT_TEST;
  bool any = true;
  chat_lines_close(&w->lines);
  TRY(chat_lines_open(path, chat_template_input(w->template), &w->lines));
  w->lines.preference = w->preference;
  if (w->lines.file.marked) {
    w->source->marked_file = region_string(&w->source->region, path);
    RETURN_IF_NULL(w->source->marked_file);
  }
  for (int64_t line = 0;; line++) {
    const enum split split = divided && line < w->held_count && w->held[line] ? SPLIT_TEST : own;
    const bool wanted = only == SPLITS || only == split;
    TRY(wanted ? chat_lines_next(&w->lines, &any) : chat_lines_skip(&w->lines, &any));
    if (!any) return NEAP_OK;
    if (!wanted) continue;
    TRY(render(w));
    TRY(use(w, split));
    if (!w->preference) continue;
    TRY(chat_lines_rejected(&w->lines));
    TRY(render(w));
    TRY(use(w, split));
  }
}

static neap_status walk(struct work *w, enum split only, conversation_user *use) {
  const bool divided = w->held != NULL;
  if (divided || only != SPLIT_TEST) TRY(walk_file(w, w->files[SPLIT_TRAIN], divided, only, use));
  return divided || only == SPLIT_TRAIN ? NEAP_OK : walk_file(w, w->files[SPLIT_TEST], false, only, use);
}

/* ---- Texts, to learn a tokenizer from ---- */

static neap_status write_text(struct work *w, enum split split) {
  (void)split;
  w->written += (int64_t)w->text.text.count;
  return source_write_file(w->lines.file.name, w->descriptor, w->text.text.data, w->text.text.count);
}

static neap_status make_tokenizer(struct work *w, const char *kind) {
  struct source *source = w->source;
  struct text texts[SPLITS] = {0};
  if (source_tokenizer_learns(kind)) {
    TRY(source_temporary_file(source, w->files[SPLIT_TRAIN], &w->descriptor));
    for (int s = 0; s < SPLITS; s++) {
      const int64_t before = w->written;
      TRY(walk(w, (enum split)s, write_text));
      texts[s] = (struct text){.name = w->files[w->held != NULL ? SPLIT_TRAIN : s],
                               .descriptor = w->descriptor,
                               .first = (uint64_t)before,
                               .length = (size_t)(w->written - before)};
    }
  }
  TRY(source_tokenizer_make(source, w->files[SPLIT_TRAIN], kind, texts));
  const struct tokenizer *t = source->tokenizer;
  w->around = (struct chat_ends){.bos = tokenizer_added_text(t, tokenizer_bos(t)),
                                 .eos = tokenizer_added_text(t, tokenizer_eos(t))};
  return NEAP_OK;
}

/* ---- Tokens ---- */

static neap_status encode(struct work *w) {
  char name[512];
  snprintf(name, sizeof name, "%s (%s %lld, as rendered)", w->lines.file.name, w->lines.unit,
           (long long)w->lines.record);
  const struct text text = {.bytes = w->text.text.data, .length = w->text.text.count, .name = name};
  w->ids.count = w->ends.count = 0;
  return tokenizer_encode_places(w->source->tokenizer, &text, w->lines.sample.messages.count == 0, &w->ids,
                                 &w->ends);
}

/* Replaces each token that does not begin in a span by its complement; the spans of a prompt do not count.
 * Returns how many of the first `count` carry loss, apart from the very first, which nothing predicts. */
static int64_t mark(struct work *w, size_t count) {
  const bool all = w->source->task.chat.train_on_prompt;
  size_t span = 0;
  int64_t counted = 0;
  while (span < w->text.spans.count && w->text.spans.data[span].turn < w->lines.sample.answered) span++;
  for (size_t i = 0; i < count; i++) {
    const size_t begin = i > 0 ? w->ends.data[i - 1] : 0;
    while (span < w->text.spans.count && begin >= w->text.spans.data[span].end) span++;
    const bool inside = span < w->text.spans.count && begin >= w->text.spans.data[span].begin;
    if (inside || all)
      counted += i > 0;
    else
      w->ids.data[i] = ~w->ids.data[i];
  }
  return counted;
}

static neap_status write_tokens(struct work *w, enum split split) {
  struct source *source = w->source;
  const size_t most = (size_t)source->task.length + 1;
  TRY(encode(w));
  const bool fits = w->ids.count <= most;
  const size_t count = fits ? w->ids.count : most;
  const bool left_out = (!fits && source->task.chat.skip_long) || mark(w, count) == 0,
             first = !w->lines.second,
             whole = !w->preference || !first; /* the record ends with this sequence */
  if (left_out || (!first && w->dropped)) {
    if (!first && !w->dropped) w->records[split].count--; /* that of its pair */
    w->dropped = true;
    source->skipped += whole;
    return NEAP_OK;
  }
  w->dropped = false;
  source->cut += !fits;
  TRY(vector_push(&w->records[split], (struct conversation){w->written, (int32_t)count}));
  if ((int64_t)count > w->longest) {
    w->longest = (int64_t)count;
    w->longest_record = w->lines.record;
    w->longest_unit = w->lines.unit;
    w->longest_file = w->lines.file.name;
  }
  w->written += (int64_t)count;
  source->tokens[split] += (int64_t)count;
  source->records[split] += whole;
  return source_write_file(w->lines.file.name, w->descriptor, w->ids.data, count * sizeof *w->ids.data);
}

/* ---- The source ---- */

static const char *in_folder(struct source *source, const char *folder, const char *name) {
  const char *path = region_format(&source->region, "%s/%s", folder, name);
  return path != NULL && file_exists(path) ? path : NULL;
}

static neap_status find_files(struct work *w, const struct words *words) {
  struct source *source = w->source;
  const bool folder = file_is_folder(words->place);
  w->files[SPLIT_TEST] = words->test;
  w->files[SPLIT_TRAIN] = folder ? in_folder(source, words->place, "train.jsonl") : words->place;
  RETURN_IF(w->files[SPLIT_TRAIN] == NULL, NEAP_IO_FAILED, "%s: the folder has no train.jsonl", words->place);
  static const char *const names[] = {"valid.jsonl", "validation.jsonl", "val.jsonl",
                                      "dev.jsonl",   "eval.jsonl",       "test.jsonl"};
  for (size_t i = 0; i < sizeof names / sizeof *names && folder; i++) {
    const char *file = in_folder(source, words->place, names[i]);
    if (file == NULL) continue;
    if (w->files[SPLIT_TEST] == NULL)
      w->files[SPLIT_TEST] = file;
    else
      TRY(understood_add(&source->understood, &source->region,
                         (neap_understood){names[i], "another test part, left out", -1, NULL}));
  }
  RETURN_IF(w->files[SPLIT_TEST] != NULL && (words->holdout != NULL || words->seed != NULL),
            NEAP_INVALID_ARGUMENT, "data '%s': %s provides the test part; leave %s= out", source->name,
            w->files[SPLIT_TEST], words->holdout != NULL ? "holdout" : "seed");
  return NEAP_OK;
}

/* Reads the only record of the training part, which may be another file than conversations. */
static neap_status check_only(struct work *w) {
  struct chat_lines lines;
  bool any;
  neap_status status = chat_lines_open(w->files[SPLIT_TRAIN], "", &lines);
  lines.preference = w->preference;
  if (status == NEAP_OK) status = chat_lines_next(&lines, &any);
  chat_lines_close(&lines);
  TRY(status);
  return neap_fail(NEAP_INVALID_ARGUMENT,
                   "%s: has only one record, so nothing is left for a test part; add records, or name a file "
                   "with them (,test=FILE)",
                   w->files[SPLIT_TRAIN]);
}

static neap_status hold_out(struct work *w, const struct words *words) {
  bool any = true, *held;
  int64_t lines = -1;
  if (w->files[SPLIT_TEST] != NULL) return NEAP_OK;
  TRY(chat_lines_open(w->files[SPLIT_TRAIN], "", &w->lines));
  for (; any; lines++) TRY(chat_lines_skip(&w->lines, &any));
  RETURN_IF(lines == 0, NEAP_BAD_FORMAT, "%s: the file has no conversations", w->files[SPLIT_TRAIN]);
  if (lines == 1) return check_only(w);
  TRY(holdout_draw(w->source, words->holdout, words->seed, lines, &held));
  w->held = held;
  w->held_count = lines;
  return NEAP_OK;
}

static neap_status check_records(const struct work *w) {
  const struct source *source = w->source;
  for (int s = 0; s < SPLITS; s++)
    RETURN_IF(source->records[s] == 0, NEAP_INVALID_ARGUMENT,
              "%s: no conversation is left to %s: each has no trained token among its first %lld, or is "
              "longer and left out; use a larger `length`",
              w->held != NULL || s == SPLIT_TRAIN ? w->files[SPLIT_TRAIN] : w->files[SPLIT_TEST],
              s == SPLIT_TRAIN ? "train with" : "test with", (long long)source->task.length);
  return NEAP_OK;
}

/* Makes each conversation one record. */
static neap_status keep_apart(struct source *source, int64_t longest) {
  source->conversations = source->records[SPLIT_TRAIN];
  source->read = read_record;
  source->sequence_length = source->task.any_length ? longest : source->task.length;
  if (source->task.any_length) source->length = length_of;
  return source_add_field(source,
                          (struct field){"conversation", NEAP_I32, 1, {source->sequence_length + 1}, true});
}

/* Makes the conversations that were written the source's records. */
static neap_status finish(struct work *w) {
  struct source *source = w->source;
  struct chat_source chat = {.path = w->files[SPLIT_TRAIN], .descriptor = w->descriptor};
  TRY(check_records(w));
  for (int s = 0; s < SPLITS; s++) {
    chat.records[s] =
        region_copy(&source->region, w->records[s].data, w->records[s].count, sizeof *w->records[s].data);
    RETURN_IF_NULL(chat.records[s]);
  }
  source->kind = NEAP_TASK_TOKENS;
  source->classes = tokenizer_size(w->source->tokenizer);
  if (w->preference)
    TRY(keep_pairs(source, w->longest - 1));
  else if (source->task.chat.packed)
    TRY(pack(source, &chat, w->longest - 1));
  else
    TRY(keep_apart(source, w->longest - 1));
  source->context = region_copy(&source->region, &chat, 1, sizeof chat);
  source->longest = region_format(&source->region, "%s: %s %lld, of %lld tokens", w->longest_file,
                                  w->longest_unit, (long long)w->longest_record, (long long)w->longest);
  RETURN_IF(source->context == NULL || source->longest == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory",
            chat.path);
  return NEAP_OK;
}

static neap_status open_work(struct work *w, const struct words *words) {
  TRY(find_files(w, words));
  TRY(hold_out(w, words));
  TRY(make_tokenizer(w, words->tokens));
  TRY(source_temporary_file(w->source, w->files[SPLIT_TRAIN], &w->descriptor));
  w->written = 0;
  TRY(walk(w, SPLITS, write_tokens));
  return finish(w);
}

/* Finds the template: the one that is asked for, else the model's own, else a usual one. */
static neap_status find_template(struct work *w) {
  const struct task *task = &w->source->task;
  if (task->chat.template_name == NULL && task->texts != NULL)
    TRY(task->texts->read_template(task->model, &w->template));
  const bool own = w->template != NULL, asked = task->chat.template_name != NULL;
  if (!own) TRY(chat_template_named(asked ? task->chat.template_name : "chatml", &w->template));
  const char *name = w->template->name;
  return understood_add(&w->source->understood, &w->source->region,
                        (neap_understood){name != NULL ? name : "the model's own", "chat template", -1,
                                          asked                 ? "asked for by its name"
                                          : own && name != NULL ? "the model's own renders the same"
                                          : own                 ? "it is run as the model's file has it"
                                                                : "the usual one: no model gives another"});
}

static neap_status open_source(const char *argument, bool preference, struct source *source) {
  static const char *const keys[] = {"", "tokens", "test", "holdout", "seed", NULL};
  struct words words = {0};
  struct work work = {
      .source = source, .lines.file.descriptor = -1, .descriptor = -1, .preference = preference};
  if (preference) source->task.chat.packed = false;
  TRY(source_parse(
      source, argument, keys,
      (const char **const[]){&words.place, &words.tokens, &words.test, &words.holdout, &words.seed}));
  RETURN_IF(source->task.kind == NEAP_TASK_MASKED, NEAP_INVALID_ARGUMENT,
            "data '%s': conversations suit models that predict the next token, not models of masked tokens",
            source->name);
  if (source->task.length == 0) source->task.length = 1024; /* of data that are looked at */
  neap_status status = find_template(&work);
  if (status == NEAP_OK) status = open_work(&work, &words);
  free_work(&work);
  return status;
}

neap_status chat_open(const char *argument, struct source *source) {
  return open_source(argument, false, source);
}

/* "preference:FILE|DIR[,...]" in the same words. A record is a pair of conversations with one prompt. */
neap_status preference_open(const char *argument, struct source *source) {
  return open_source(argument, true, source);
}
