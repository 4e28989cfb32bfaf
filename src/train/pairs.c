/* Parallel text as data: "parallel:DIR:de-en[,tokens=N|FILE.json]", from files of DIR whose names begin with
 * "train" and "val" and end with the languages. Both sides are made byte-pair codes of one vocabulary of N,
 * learned from the training part, which with the place of every pair is all that the process holds: the codes
 * are in a temporary file.
 *
 * Pairs stand in buckets by the longer of their two sides. A source ends with </s>, and where it ends before
 * its sequence -1 follows; a target begins with </s>, and its labels are what follows, </s> at the end. */
#include <stdlib.h>
#include <string.h>

#include "text/parallel_text.h"
#include "text/token_file.h"
#include "text/tokenizer_file.h"
#include "train/data_source.h"

static const int32_t usual_vocabulary = 10000;

struct pair_record {
  int64_t first;          /* of its tokens in the file: those of the source, then those of the target */
  int32_t source, target; /* how many, </s> not counted */
};

struct pair_source {
  struct token_file file;
  struct pair_record *records; /* of training, then those to test with, each by bucket */
  int32_t end;                 /* </s> */
};

static int64_t length_of(const struct pair_record *r) {
  return 1 + (r->source > r->target ? r->source : r->target);
}

/* ---- Batches ---- */

static neap_status fill_record(const struct data_set *set, const struct pair_record *r, int64_t length,
                               int32_t *source, int32_t *tokens, int32_t *labels) {
  const struct pair_source *p = set->source;
  int32_t *window = set->window;
  TRY(token_file_read(&p->file, r->first, r->source + r->target, window));
  for (int64_t i = 0; source != NULL && i < length; i++)
    source[i] = i < r->source ? window[i] : i == r->source ? p->end : -1;
  window += r->source;
  for (int64_t i = 0; i < length; i++) {
    labels[i] = i < r->target ? window[i] : i == r->target ? p->end : -1;
    if (tokens != NULL) tokens[i] = i == 0 ? p->end : i <= r->target ? window[i - 1] : -1;
  }
  return NEAP_OK;
}

/* Where there is no record, a source of one token keeps attention from looking at nothing. */
static void fill_none(const struct pair_source *p, int64_t length, int32_t *source, int32_t *tokens,
                      int32_t *labels) {
  for (int64_t i = 0; i < length; i++) {
    if (source != NULL) source[i] = i == 0 ? p->end : -1;
    if (tokens != NULL) tokens[i] = i == 0 ? p->end : -1;
    labels[i] = -1;
  }
}

static neap_status fill(const struct data_set *set, const struct data_split *split,
                        const struct data_batch *batch, void *inputs, int32_t *labels) {
  const struct pair_source *p = set->source;
  const int64_t length = batch->length;
  for (int64_t i = 0; i < batch->count; i++) {
    int32_t *tokens = inputs != NULL ? (int32_t *)inputs + i * length : NULL,
            *source = inputs != NULL ? batch->source + i * length : NULL;
    if (batch->records[i] < 0)
      fill_none(p, length, source, tokens, labels + i * length);
    else
      TRY(fill_record(set, &p->records[split->first + batch->records[i]], length, source, tokens,
                      labels + i * length));
  }
  return NEAP_OK;
}

/* ---- Opening ---- */

/* Appends the tokens of all pairs to the file. */
static neap_status write_pairs(const struct data_set *set, const struct parallel_text *text, int descriptor,
                               int64_t *written, struct pair_record *records) {
  struct token_ids ids = {0};
  neap_status status = NEAP_OK;
  for (size_t i = 0; i < text->pairs.count && status == NEAP_OK; i++) {
    const struct line_pair *pair = &text->pairs.data[i];
    ids.count = 0;
    status = tokenizer_encode(set->tokenizer, &pair->source, &ids);
    const size_t source = ids.count;
    if (status == NEAP_OK) status = tokenizer_encode(set->tokenizer, &pair->target, &ids);
    if (status != NEAP_OK) break;
    records[i] = (struct pair_record){*written, (int32_t)source, (int32_t)(ids.count - source)};
    *written += (int64_t)ids.count;
    status = data_write_file(pair->source.name, descriptor, ids.data, ids.count * sizeof *ids.data);
  }
  vector_free(&ids);
  return status;
}

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Lengths of buckets: so many of the training pairs are no longer, rounded up; the last holds all. */
static neap_status choose_lengths(const struct pair_record *records, int64_t training, int64_t count,
                                  int64_t lengths[DATA_BUCKETS], int *buckets) {
  static const double shares[] = {0.25, 0.5, 0.75, 0.9, 0.98};
  enum { MULTIPLE = 4 };
  int64_t *all = malloc((size_t)count * sizeof *all), longest = 0;
  RETURN_IF_NULL(all);
  for (int64_t i = 0; i < count; i++) {
    all[i] = length_of(&records[i]);
    longest = all[i] > longest ? all[i] : longest;
  }
  qsort(all, (size_t)training, sizeof *all, by_number);
  *buckets = 0;
  for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
    const int64_t length =
        (all[(int64_t)(shares[k] * (double)(training - 1))] + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    if (length < longest && (*buckets == 0 || length > lengths[*buckets - 1])) lengths[(*buckets)++] = length;
  }
  lengths[(*buckets)++] = longest;
  free(all);
  return NEAP_OK;
}

/* Puts the records of a split in the order of their buckets, and in that of the files within one. */
static neap_status sort_split(struct data_split *split, struct pair_record *records, const int64_t *lengths,
                              int buckets) {
  struct pair_record *sorted = malloc((size_t)split->count * sizeof *sorted);
  RETURN_IF_NULL(sorted);
  int64_t done = 0;
  for (int k = 0; k < buckets; k++) {
    const int64_t above = k > 0 ? lengths[k - 1] : 0, first = done;
    for (int64_t i = 0; i < split->count; i++) {
      const int64_t length = length_of(&records[i]);
      if (length > above && length <= lengths[k]) sorted[done++] = records[i];
    }
    split->buckets[k] = (struct data_bucket){lengths[k], first, done - first};
  }
  split->bucket_count = buckets;
  memcpy(records, sorted, (size_t)split->count * sizeof *records);
  free(sorted);
  return NEAP_OK;
}

static neap_status learn(struct data_set *set, const struct parallel_text *text, int64_t vocabulary) {
  struct text *lines = malloc(2 * text->pairs.count * sizeof *lines);
  RETURN_IF_NULL(lines);
  for (size_t i = 0; i < text->pairs.count; i++) {
    lines[2 * i] = text->pairs.data[i].source;
    lines[2 * i + 1] = text->pairs.data[i].target;
  }
  const neap_status status =
      tokenizer_learn(lines, 2 * text->pairs.count, (int32_t)vocabulary - 1, &set->tokenizer);
  free(lines);
  return status;
}

/* `tokens`: of the name; NULL: the usual number. */
static neap_status make_tokenizer(struct data_set *set, const struct parallel_text *text,
                                  const char *tokens) {
  int64_t vocabulary = usual_vocabulary;
  if (tokens != NULL && data_is_tokenizer(tokens)) return tokenizer_read(tokens, &set->tokenizer);
  if (tokens != NULL) {
    char *end;
    vocabulary = strtoll(tokens, &end, 10);
    RETURN_IF(end == tokens || *end != '\0' || vocabulary < BYTE_TOKENS + 1 || vocabulary > 1 << 20,
              NEAP_INVALID_ARGUMENT,
              "data set 'parallel': tokens=%s is neither a tokenizer's .json file nor a number from %d to %d",
              tokens, BYTE_TOKENS + 1, 1 << 20);
  }
  return learn(set, text, vocabulary);
}

static neap_status open_pairs(struct data_set *set, const char *folder, const struct parallel_text *train,
                              const struct parallel_text *test, const char *tokens) {
  struct pair_source none = {.file = {.descriptor = -1}},
                     *p = region_copy(&set->region, &none, 1, sizeof none);
  const size_t count = train->pairs.count + test->pairs.count;
  int64_t lengths[DATA_BUCKETS];
  int descriptor, buckets;
  RETURN_IF_NULL(p);
  set->source = p;
  p->records = region_alloc(&set->region, count, sizeof *p->records);
  RETURN_IF_NULL(p->records);
  TRY(make_tokenizer(set, train, tokens));
  p->end = tokenizer_special(set->tokenizer, "</s>");
  if (p->end < 0) TRY(tokenizer_add_special(set->tokenizer, "</s>", &p->end));
  TRY(data_temporary_file(set, folder, &descriptor));
  p->file = (struct token_file){.path = folder, .descriptor = descriptor, .type = TOKEN_I32};
  TRY(write_pairs(set, train, descriptor, &p->file.count, p->records));
  TRY(write_pairs(set, test, descriptor, &p->file.count, p->records + train->pairs.count));
  set->train.count = (int64_t)train->pairs.count;
  set->test.count = (int64_t)test->pairs.count;
  set->test.first = set->train.count;
  TRY(choose_lengths(p->records, set->train.count, (int64_t)count, lengths, &buckets));
  TRY(sort_split(&set->train, p->records, lengths, buckets));
  TRY(sort_split(&set->test, p->records + set->train.count, lengths, buckets));
  set->kind = MODEL_PAIRS;
  set->fill = fill;
  set->length = lengths[buckets - 1];
  set->classes = tokenizer_size(set->tokenizer);
  set->window = region_alloc(&set->region, (size_t)(2 * set->length), sizeof *set->window);
  RETURN_IF_NULL(set->window);
  return NEAP_OK;
}

/* "DIR:de-en" into its parts. */
static neap_status split_name(struct data_set *set, const char *text, char **folder, char **source,
                              char **target) {
  *folder = region_format(&set->region, "%s", text);
  RETURN_IF_NULL(*folder);
  char *colon = strrchr(*folder, ':'), *dash = colon != NULL ? strchr(colon, '-') : NULL;
  RETURN_IF(dash == NULL || dash == colon + 1 || dash[1] == '\0', NEAP_INVALID_ARGUMENT,
            "data set 'parallel:%s': say the folder and the languages, as parallel:DIR:de-en", text);
  *colon = *dash = '\0';
  *source = colon + 1;
  *target = dash + 1;
  return NEAP_OK;
}

neap_status parallel_open(const char *argument, struct data_set *set) {
  static const char *const keys[] = {"", "tokens", NULL};
  const char *name = NULL, *tokens = NULL;
  char *folder, *source, *target;
  TRY(data_parse(set, argument, keys, (const char **const[]){&name, &tokens}));
  TRY(split_name(set, name, &folder, &source, &target));
  struct parallel_text train = {0}, test = {0};
  neap_status status = parallel_text_read(folder, "train", source, target, &train);
  if (status == NEAP_OK) status = parallel_text_read(folder, "val", source, target, &test);
  if (status == NEAP_OK) status = open_pairs(set, folder, &train, &test, tokens);
  parallel_text_free(&train);
  parallel_text_free(&test);
  return status;
}
