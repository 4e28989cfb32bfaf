/* Reads parallel text as data: "parallel:DIR:de-en[,tokens=N|FILE.json]", from files of DIR whose names begin
 * with "train" and "val" and end with the languages. Both sides become byte-pair codes of one vocabulary of
 * N, learned from the training part. The codes go to a temporary file; the process holds only the vocabulary
 * and the place of every pair.
 *
 * The length of a pair, which decides its bucket, is that of its longer side, with </s>. If a length is asked
 * for, longer pairs are left out of the training part and cut in the test part. */
#include <stdlib.h>
#include <string.h>

#include "data/readers.h"
#include "text/parallel_text.h"
#include "text/token_file.h"
#include "text/tokenizer_file.h"

static const int32_t usual_vocabulary = 10000;

struct pair_record {
  int64_t first;          /* of its tokens in the file: those of the source, then those of the target */
  int32_t source, target; /* how many, </s> not counted */
};

struct pair_source {
  struct token_file file;
  struct pair_record *records; /* of training, then those to test with */
};

static const struct pair_record *record_at(const struct source *source, enum split split, int64_t record) {
  const struct pair_source *p = source->context;
  return &p->records[(split == SPLIT_TEST ? source->records[SPLIT_TRAIN] : 0) + record];
}

static int64_t record_length(const struct pair_record *r) {
  return 1 + (r->source > r->target ? r->source : r->target);
}

static int64_t length_of(const struct source *source, enum split split, int64_t record) {
  return record_length(record_at(source, split, record));
}

static neap_status read_record(const struct source *source, enum split split, int64_t record,
                               const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)draw;
  const struct pair_source *p = source->context;
  const struct pair_record *r = record_at(source, split, record);
  lengths[0] = r->source;
  lengths[1] = r->target;
  if (fields[0] != NULL) TRY(token_file_read(&p->file, r->first, r->source, fields[0]));
  return fields[1] != NULL ? token_file_read(&p->file, r->first + r->source, r->target, fields[1]) : NEAP_OK;
}

/* ---- Opening ---- */

/* The files and counts that the pairs' tokens are written to. */
struct writing {
  struct source *source;
  int descriptor;
  int64_t written;             /* tokens so far */
  struct pair_record *records; /* the next one */
  int64_t longest;             /* of those that are in */
  const struct text *line;     /* of that one */
};

static int32_t at_most(int64_t count, int64_t limit) {
  return (int32_t)(limit > 0 && count > limit - 1 ? limit - 1 : count); /* </s> follows */
}

/* Writes a pair: `sources` tokens of the source, and the rest of the target. */
static neap_status write_pair(struct writing *w, const struct line_pair *pair, enum split split,
                              const struct token_ids *ids, size_t sources) {
  struct source *source = w->source;
  const int64_t limit = source->task.asked_length;
  const struct pair_record whole = {w->written, (int32_t)sources, (int32_t)(ids->count - sources)},
                           kept = {w->written, at_most(whole.source, limit), at_most(whole.target, limit)};
  const bool fits = kept.source == whole.source && kept.target == whole.target;
  if (!fits && split == SPLIT_TRAIN) {
    source->skipped++;
    return NEAP_OK;
  }
  source->cut += !fits;
  if (record_length(&kept) > w->longest) w->longest = record_length(&kept), w->line = &pair->source;
  *w->records++ = kept;
  w->written += kept.source + kept.target;
  source->records[split]++;
  TRY(source_write_file(pair->source.name, w->descriptor, ids->data,
                        (size_t)kept.source * sizeof *ids->data));
  return source_write_file(pair->source.name, w->descriptor, ids->data + sources,
                           (size_t)kept.target * sizeof *ids->data);
}

/* Appends the tokens of all pairs to the file. */
static neap_status write_pairs(struct writing *w, const struct parallel_text *text, enum split split) {
  const struct source *source = w->source;
  struct token_ids ids = {0};
  neap_status status = NEAP_OK;
  for (size_t i = 0; i < text->pairs.count && status == NEAP_OK; i++) {
    const struct line_pair *pair = &text->pairs.data[i];
    ids.count = 0;
    status = tokenizer_encode(source->tokenizer, &pair->source, &ids);
    const size_t sources = ids.count;
    if (status == NEAP_OK) status = tokenizer_encode(source->tokenizer, &pair->target, &ids);
    if (status == NEAP_OK) status = write_pair(w, pair, split, &ids, sources);
  }
  vector_free(&ids);
  if (status != NEAP_OK) return status;
  RETURN_IF(source->records[split] == 0, NEAP_INVALID_ARGUMENT,
            "%s: all of its pairs have more than %lld tokens; use a larger `length`",
            text->pairs.data[0].source.name, (long long)source->task.asked_length);
  return NEAP_OK;
}

static neap_status learn(struct source *source, const struct parallel_text *text, int64_t vocabulary) {
  struct text *lines = malloc(2 * text->pairs.count * sizeof *lines);
  RETURN_IF_NULL(lines);
  for (size_t i = 0; i < text->pairs.count; i++) {
    lines[2 * i] = text->pairs.data[i].source;
    lines[2 * i + 1] = text->pairs.data[i].target;
  }
  const neap_status status =
      tokenizer_learn(lines, 2 * text->pairs.count, (int32_t)vocabulary - 1, &source->tokenizer);
  free(lines);
  return status;
}

/* Makes the tokenizer. `tokens`: the word of the name; NULL: the usual number. */
static neap_status make_tokenizer(struct source *source, const struct parallel_text *text,
                                  const char *tokens) {
  int64_t vocabulary = usual_vocabulary;
  if (tokens != NULL && source_is_tokenizer(tokens)) return tokenizer_read(tokens, &source->tokenizer);
  if (tokens != NULL) {
    char *end;
    vocabulary = strtoll(tokens, &end, 10);
    RETURN_IF(
        end == tokens || *end != '\0' || vocabulary < BYTE_TOKENS + 1 || vocabulary > 1 << 20,
        NEAP_INVALID_ARGUMENT,
        "data set 'parallel': tokens=%s must be the .json file of a tokenizer or a number from %d to %d",
        tokens, BYTE_TOKENS + 1, 1 << 20);
  }
  return learn(source, text, vocabulary);
}

static neap_status open_pairs(struct source *source, const char *folder, const struct parallel_text *train,
                              const struct parallel_text *test, const char *tokens) {
  struct pair_source none = {.file = {.descriptor = -1}},
                     *p = region_copy(&source->region, &none, 1, sizeof none);
  const size_t count = train->pairs.count + test->pairs.count;
  int descriptor;
  RETURN_IF_NULL(p);
  source->context = p;
  p->records = region_alloc(&source->region, count, sizeof *p->records);
  RETURN_IF_NULL(p->records);
  TRY(make_tokenizer(source, train, tokens));
  source->end_token = tokenizer_special(source->tokenizer, "</s>");
  if (source->end_token < 0) TRY(tokenizer_add_special(source->tokenizer, "</s>", &source->end_token));
  TRY(source_temporary_file(source, folder, &descriptor));
  struct writing w = {.source = source, .descriptor = descriptor, .records = p->records};
  TRY(write_pairs(&w, train, SPLIT_TRAIN));
  TRY(write_pairs(&w, test, SPLIT_TEST));
  p->file =
      (struct token_file){.path = folder, .descriptor = descriptor, .type = TOKEN_I32, .count = w.written};
  source->longest = region_format(&source->region, "%s: line %lld, of %lld tokens", w.line->name,
                                  (long long)w.line->line, (long long)w.longest);
  RETURN_IF_NULL(source->longest);
  source->kind = NEAP_TASK_PAIRS;
  source->classes = tokenizer_size(source->tokenizer);
  source->read = read_record;
  source->length = length_of;
  const int64_t longest = source->sequence_length = w.longest;
  TRY(source_add_field(source, (struct field){"source", NEAP_I32, 1, {longest}, true}));
  return source_add_field(source, (struct field){"target", NEAP_I32, 1, {longest}, true});
}

/* Splits "DIR:de-en" into its parts. */
static neap_status split_name(struct source *source, const char *text, char **folder, char **from,
                              char **to) {
  *folder = region_format(&source->region, "%s", text);
  RETURN_IF_NULL(*folder);
  char *colon = strrchr(*folder, ':'), *dash = colon != NULL ? strchr(colon, '-') : NULL;
  RETURN_IF(dash == NULL || dash == colon + 1 || dash[1] == '\0', NEAP_INVALID_ARGUMENT,
            "data set 'parallel:%s': the folder or the languages are missing; write parallel:DIR:de-en",
            text);
  *colon = *dash = '\0';
  *from = colon + 1;
  *to = dash + 1;
  return NEAP_OK;
}

neap_status parallel_open(const char *argument, struct source *source) {
  static const char *const keys[] = {"", "tokens", NULL};
  const char *name = NULL, *tokens = NULL;
  char *folder, *from, *to;
  TRY(source_parse(source, argument, keys, (const char **const[]){&name, &tokens}));
  TRY(split_name(source, name, &folder, &from, &to));
  struct parallel_text train = {0}, test = {0};
  neap_status status = parallel_text_read(folder, "train", from, to, &train);
  if (status == NEAP_OK) status = parallel_text_read(folder, "val", from, to, &test);
  if (status == NEAP_OK) status = open_pairs(source, folder, &train, &test, tokens);
  const char *marked = train.marked_file != NULL ? train.marked_file : test.marked_file;
  if (status == NEAP_OK && marked != NULL) {
    source->marked_file = region_string(&source->region, marked);
    if (source->marked_file == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  }
  parallel_text_free(&train);
  parallel_text_free(&test);
  return status;
}
