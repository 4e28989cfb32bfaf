#include "text/bleu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/region.h"
#include "text/bleu_words.h"
#include "text/pair_table.h"
#include "text/utf8.h"
#include "text/word_table.h"

/* Numbers of words or n-grams in order, a vector. */
struct numbers {
  int32_t *data;
  size_t count, capacity;
};

struct counter {
  enum bleu_tokenization tokenization;
  struct region region; /* owns the words */
  struct word_table words;
  /* An n-gram is a pair of the (n-1)-gram that it begins with and a word. Those of references are numbered.
   */
  struct pair_table grams[BLEU_ORDERS];
  struct numbers left[BLEU_ORDERS]; /* by number: how many of the current reference are not matched yet */
  struct characters split, spare;
  struct numbers hypothesis, reference, hypothesis_grams, reference_grams;
};

static void free_counter(struct counter *c) {
  region_free(&c->region);
  word_table_free(&c->words);
  for (int n = 0; n < BLEU_ORDERS; n++) {
    pair_table_free(&c->grams[n]);
    vector_free(&c->left[n]);
  }
  vector_free(&c->split);
  vector_free(&c->spare);
  vector_free(&c->hypothesis);
  vector_free(&c->reference);
  vector_free(&c->hypothesis_grams);
  vector_free(&c->reference_grams);
}

/* ---- Words ---- */

/* Numbers a word. A new word is copied, since its bytes are in a buffer. */
static neap_status number_word(struct counter *c, const char *bytes, size_t length, int32_t *number) {
  const size_t before = c->words.words.count;
  TRY(word_table_add(&c->words, bytes, length, number));
  if (c->words.words.count == before) return NEAP_OK;
  const char *copy = region_copy(&c->region, bytes, length, 1);
  RETURN_IF_NULL(copy);
  c->words.words.data[*number].bytes = copy;
  return NEAP_OK;
}

static neap_status split(struct counter *c, const char *what, size_t segment, const char *line,
                         struct numbers *numbers) {
  char name[48];
  size_t length = strlen(line), word;
  snprintf(name, sizeof name, "%s %zu", what, segment);
  TRY(utf8_check(&(struct text){.bytes = line, .length = length, .name = name}));
  if (c->tokenization == BLEU_13A) {
    TRY(bleu_split_13a(line, length, &c->split, &c->spare));
    line = c->split.data;
    length = c->split.count;
  }
  numbers->count = 0;
  for (size_t at = 0; (word = bleu_word(line, length, &at)) > 0; at += word) {
    int32_t number;
    TRY(number_word(c, line + at, word, &number));
    TRY(vector_push(numbers, number));
  }
  return NEAP_OK;
}

/* ---- N-grams ---- */

/* Numbers the n-gram at a place; `grams` has the numbers of those with one word less. */
static neap_status number_gram(struct counter *c, int n, const struct numbers *words, struct numbers *grams,
                               size_t at) {
  int32_t *number = &grams->data[at];
  if (n > 0) {
    const struct pair pair = {*number, words->data[at + (size_t)n]};
    TRY(pair_table_add(&c->grams[n], pair, number));
  }
  while (c->left[n].count <= (size_t)*number) TRY(vector_push(&c->left[n], 0));
  c->left[n].data[*number]++;
  return NEAP_OK;
}

/* The same without numbering new ones; -1: no reference has this n-gram. */
static int32_t find_gram(const struct counter *c, int n, const struct numbers *words, int32_t shorter,
                         size_t at) {
  if (n == 0 || shorter < 0) return shorter;
  return pair_table_find(&c->grams[n], (struct pair){shorter, words->data[at + (size_t)n]});
}

/* Counts n-grams of n + 1 words. Each one of the hypothesis uses up one of the reference, so none counts more
 * often than it occurs there. */
static neap_status count_order(struct counter *c, int n, struct bleu *bleu) {
  const struct numbers *hypothesis = &c->hypothesis, *reference = &c->reference;
  struct numbers *left = &c->left[n];
  for (size_t at = 0; at + (size_t)n < reference->count; at++)
    TRY(number_gram(c, n, reference, &c->reference_grams, at));
  for (size_t at = 0; at + (size_t)n < hypothesis->count; at++) {
    int32_t *number = &c->hypothesis_grams.data[at];
    *number = find_gram(c, n, hypothesis, *number, at);
    bleu->totals[n]++;
    if (*number < 0 || (size_t)*number >= left->count || left->data[*number] == 0) continue;
    left->data[*number]--;
    bleu->matches[n]++;
  }
  for (size_t at = 0; at + (size_t)n < reference->count; at++) left->data[c->reference_grams.data[at]] = 0;
  return NEAP_OK;
}

static neap_status copy_numbers(const struct numbers *from, struct numbers *to) {
  TRY(vector_reserve(to, from->count));
  if (from->count > 0) memcpy(to->data, from->data, from->count * sizeof *from->data);
  to->count = from->count;
  return NEAP_OK;
}

static neap_status count_segment(struct counter *c, struct bleu *bleu) {
  TRY(copy_numbers(&c->hypothesis, &c->hypothesis_grams));
  TRY(copy_numbers(&c->reference, &c->reference_grams));
  bleu->hypothesis_length += (int64_t)c->hypothesis.count;
  bleu->reference_length += (int64_t)c->reference.count;
  for (int n = 0; n < BLEU_ORDERS; n++) TRY(count_order(c, n, bleu));
  return NEAP_OK;
}

/* ---- The score ---- */

static double brevity_penalty(int64_t hypothesis, int64_t reference) {
  if (hypothesis >= reference) return 1;
  return hypothesis == 0 ? 0 : exp(1 - (double)reference / (double)hypothesis);
}

/* Sets the score. An order without a match counts as half a match, the next such one as a quarter, and so on.
 * An order without n-grams, and all after it, count as 0. */
static void set_score(struct bleu *bleu) {
  double halves = 1, logarithms = 0;
  bool any = false, all = true;
  bleu->brevity = brevity_penalty(bleu->hypothesis_length, bleu->reference_length);
  for (int n = 0; n < BLEU_ORDERS; n++) any = any || bleu->matches[n] > 0;
  for (int n = 0; n < BLEU_ORDERS && any; n++) {
    all = all && bleu->totals[n] > 0;
    if (!all) break;
    if (bleu->matches[n] == 0) halves *= 2;
    bleu->precisions[n] = bleu->matches[n] == 0 ? 100 / (halves * (double)bleu->totals[n])
                                                : 100 * (double)bleu->matches[n] / (double)bleu->totals[n];
    logarithms += log(bleu->precisions[n]);
  }
  bleu->score = any && all ? bleu->brevity * exp(logarithms / BLEU_ORDERS) : 0;
}

neap_status bleu_corpus(const char *const *hypotheses, const char *const *references, size_t count,
                        enum bleu_tokenization tokenization, struct bleu *out) {
  RETURN_IF(count == 0, NEAP_INVALID_ARGUMENT, "BLEU: no segments; at least one is needed");
  struct counter counter = {.tokenization = tokenization};
  struct bleu bleu = {0};
  neap_status status = NEAP_OK;
  for (size_t i = 0; i < count && status == NEAP_OK; i++) {
    status = split(&counter, "hypothesis", i + 1, hypotheses[i], &counter.hypothesis);
    if (status == NEAP_OK) status = split(&counter, "reference", i + 1, references[i], &counter.reference);
    if (status == NEAP_OK) status = count_segment(&counter, &bleu);
  }
  free_counter(&counter);
  TRY(status);
  set_score(&bleu);
  *out = bleu;
  return NEAP_OK;
}

neap_status neap_bleu_score(const char *const *hypotheses, const char *const *references, size_t count,
                            neap_bleu_tokenization tokenization, neap_bleu *out) {
  NEED(hypotheses);
  NEED(references);
  NEED(out);
  for (size_t i = 0; i < count; i++) {
    NEED(hypotheses[i]);
    NEED(references[i]);
  }
  struct bleu bleu;
  TRY(bleu_corpus(hypotheses, references, count, tokenization == NEAP_BLEU_NONE ? BLEU_NONE : BLEU_13A,
                  &bleu));
  *out = (neap_bleu){.score = bleu.score,
                     .brevity = bleu.brevity,
                     .hypothesis_length = bleu.hypothesis_length,
                     .reference_length = bleu.reference_length};
  memcpy(out->precisions, bleu.precisions, sizeof out->precisions);
  return NEAP_OK;
}
