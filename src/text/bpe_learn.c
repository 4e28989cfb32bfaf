#include "text/bpe_learn.h"

#include <string.h>

#include "base/heap.h"
#include "base/stop.h"
#include "text/text_file.h"
#include "text/word_table.h"
#include "text/words.h"

/* A byte of one of the distinct words, which may be the first of a token. It is then a place of the pair that
 * the token makes with the next. */
struct place {
  int32_t token, next, previous;      /* the tokens beside it in its word: places; -1: none */
  int32_t word;                       /* its number */
  int32_t pair, pair_next, pair_last; /* the pair's number (-1: no next token), its places beside this one */
};

/* The list of a pair's places. A merge makes a new token, and only changes pairs that have it or that lose a
 * place. So a list is filled while the later of its two tokens is made, in rising order, and only shrinks
 * from then on. */
struct pair_places {
  int64_t count; /* in the texts: a word counts as often as it occurs */
  int32_t first, last;
};

/* A pair and its count when it was last looked at; the count has not grown since. */
struct candidate {
  int64_t count;
  int32_t pair;
};

struct learner {
  struct bpe *bpe;
  struct word_table words;
  VECTOR(int64_t) counts; /* of the words */
  VECTOR(struct place) places;
  struct pair_table pairs;
  VECTOR(struct pair_places) pair_places; /* by the pair's number */
  VECTOR(struct candidate) candidates;    /* a heap */
  struct region region;                   /* of the words' bytes: */
  char *bytes;                            /* the next word's, */
  size_t room;                            /* of at most this number of bytes */
};

static bool candidate_before(const struct learner *l, const struct candidate *a, const struct candidate *b) {
  if (a->count != b->count) return a->count > b->count;
  const struct pair x = l->pairs.pairs.data[a->pair], y = l->pairs.pairs.data[b->pair];
  return x.left != y.left ? x.left < y.left : x.right < y.right;
}

DEFINE_HEAP(candidate, struct learner, struct candidate)

/* Copies a word to its own memory, as windows of texts do not last. */
static neap_status keep_word(struct learner *l, struct word *word) {
  static const size_t block = 1 << 16;
  if (word->length > l->room) {
    l->room = word->length > block ? word->length : block;
    l->bytes = region_alloc(&l->region, l->room, 1);
    if (l->bytes == NULL) l->room = 0;
    RETURN_IF(l->bytes == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the words of the texts");
  }
  word->bytes = memcpy(l->bytes, word->bytes, word->length);
  l->bytes += word->length;
  l->room -= word->length;
  return NEAP_OK;
}

static neap_status count_words(void *context, const struct text *text, bool last, size_t *used) {
  struct learner *l = context;
  *used = text_whole_words(text, last);
  for (size_t at = 0, size; at < *used; at += size) {
    int32_t number;
    size = word_length(text->bytes + at, text->length - at);
    TRY(word_table_add(&l->words, text->bytes + at, size, &number));
    if ((size_t)number == l->counts.count) {
      TRY(vector_push(&l->counts, 0));
      TRY(keep_word(l, &l->words.words.data[number]));
    }
    l->counts.data[number]++;
  }
  return NEAP_OK;
}

/* Appends a place to the list of the pair that now begins there. */
static neap_status enter(struct learner *l, int32_t at) {
  struct place *place = &l->places.data[at];
  place->pair = -1;
  if (place->next < 0) return NEAP_OK;
  const struct pair pair = {place->token, l->places.data[place->next].token};
  int32_t number;
  TRY(pair_table_add(&l->pairs, pair, &number));
  if ((size_t)number == l->pair_places.count)
    TRY(vector_push(&l->pair_places, (struct pair_places){.first = -1, .last = -1}));
  struct pair_places *list = &l->pair_places.data[number];
  place->pair = number;
  place->pair_next = -1;
  place->pair_last = list->last;
  *(list->last < 0 ? &list->first : &l->places.data[list->last].pair_next) = at;
  list->last = at;
  list->count += l->counts.data[place->word];
  return NEAP_OK;
}

/* Removes a place from the list of its pair. */
static void leave(struct learner *l, int32_t at) {
  const struct place *place = &l->places.data[at];
  if (place->pair < 0) return;
  struct pair_places *list = &l->pair_places.data[place->pair];
  *(place->pair_last < 0 ? &list->first : &l->places.data[place->pair_last].pair_next) = place->pair_next;
  *(place->pair_next < 0 ? &list->last : &l->places.data[place->pair_next].pair_last) = place->pair_last;
  list->count -= l->counts.data[place->word];
}

/* Makes pairs from number `first` on candidates. */
static neap_status add_candidates(struct learner *l, size_t first) {
  for (size_t i = first; i < l->pair_places.count; i++) {
    const struct candidate candidate = {l->pair_places.data[i].count, (int32_t)i};
    if (candidate.count < 2) continue;
    TRY(vector_push(&l->candidates, candidate));
    candidate_rise(l, l->candidates.data, l->candidates.count);
  }
  return NEAP_OK;
}

static neap_status make_places(struct learner *l) {
  for (size_t i = 0; i < l->words.words.count; i++) {
    const struct word *word = &l->words.words.data[i];
    const size_t first = l->places.count;
    RETURN_IF(word->length > INT32_MAX - first, NEAP_TOO_LARGE,
              "the different words of the texts have more than %d bytes", INT32_MAX);
    TRY(vector_reserve(&l->places, first + word->length));
    for (size_t k = 0; k < word->length; k++) {
      const int32_t at = (int32_t)(first + k);
      l->places.data[l->places.count++] = (struct place){.token = (unsigned char)word->bytes[k],
                                                         .next = k + 1 < word->length ? at + 1 : -1,
                                                         .previous = k > 0 ? at - 1 : -1,
                                                         .word = (int32_t)i};
    }
  }
  for (size_t at = 0; at < l->places.count; at++) TRY(enter(l, (int32_t)at));
  return add_candidates(l, 0);
}

/* Merges the token at a place with the next one into `made`. */
static neap_status merge_at(struct learner *l, int32_t at, int32_t made) {
  struct place *left = &l->places.data[at];
  const struct place *right = &l->places.data[left->next];
  if (left->previous >= 0) leave(l, left->previous);
  leave(l, at);
  leave(l, left->next);
  left->token = made;
  left->next = right->next;
  if (left->next >= 0) l->places.data[left->next].previous = at;
  if (left->previous >= 0) TRY(enter(l, left->previous));
  return enter(l, at);
}

static neap_status merge_everywhere(struct learner *l, int32_t pair) {
  const int32_t made = bpe_size(l->bpe);
  const size_t pairs = l->pair_places.count;
  TRY(bpe_merge(l->bpe, l->pairs.pairs.data[pair]));
  for (int32_t at; (at = l->pair_places.data[pair].first) >= 0;) TRY(merge_at(l, at, made));
  return add_candidates(l, pairs);
}

/* Takes the next pair to merge out of the candidates; -1: none exists. */
static int32_t take_best(struct learner *l) {
  while (l->candidates.count > 0) {
    const struct candidate best = candidate_take(l, l->candidates.data, &l->candidates.count);
    const int64_t count = l->pair_places.data[best.pair].count;
    if (count < 2) continue;
    if (count == best.count) {
      if (bpe_refusal(l->bpe, l->pairs.pairs.data[best.pair]) == NULL) return best.pair;
      continue;
    }
    /* Puts back a pair that has lost places since, in the room that it had. */
    l->candidates.data[l->candidates.count++] = (struct candidate){count, best.pair};
    candidate_rise(l, l->candidates.data, l->candidates.count);
  }
  return -1;
}

static neap_status learn(struct learner *l, const struct text *texts, size_t count, int32_t size) {
  TRY(bpe_start(l->bpe));
  for (size_t i = 0; i < count; i++) TRY(text_walk(&texts[i], count_words, l, NULL));
  TRY(make_places(l));
  while (bpe_size(l->bpe) < size) {
    TRY(stop_check());
    const int32_t best = take_best(l);
    if (best < 0) break;
    TRY(merge_everywhere(l, best));
  }
  return NEAP_OK;
}

neap_status bpe_learn(const struct text *texts, size_t count, int32_t size, struct bpe *bpe) {
  RETURN_IF(size < BYTE_TOKENS, NEAP_INVALID_ARGUMENT,
            "a vocabulary of %d is too small: byte-pair codes have at least %d tokens", size, BYTE_TOKENS);
  struct learner learner = {.bpe = bpe};
  const neap_status status = learn(&learner, texts, count, size);
  word_table_free(&learner.words);
  vector_free(&learner.counts);
  vector_free(&learner.places);
  pair_table_free(&learner.pairs);
  vector_free(&learner.pair_places);
  vector_free(&learner.candidates);
  region_free(&learner.region);
  return status;
}
