#include "text/word_encoder.h"

#include <string.h>

#include "text/utf8.h"

/* Limits: words with more bytes are not kept, and no more words or tokens than these. */
enum { KNOWN_BYTES = 64, KNOWN_WORDS = 1 << 15, KNOWN_TOKENS = 1 << 18 };

static size_t character_size(const char *bytes) {
  const unsigned char c = (unsigned char)*bytes;
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

static neap_status give(struct word_encoder *e, int32_t id, size_t length) {
  return vector_push(&e->made, (struct word_token){id, (uint32_t)length});
}

/* ---- BPE ---- */

static neap_status add_symbol(struct word_encoder *e, int32_t id, size_t length) {
  RETURN_IF(e->symbols.count >= INT32_MAX, NEAP_TOO_LARGE,
            "a word has 2^31 tokens before merging, which is too many");
  const int32_t place = (int32_t)e->symbols.count;
  if (place > 0) e->symbols.data[place - 1].behind = place;
  return vector_push(&e->symbols, (struct word_symbol){id, place - 1, -1, (uint32_t)length});
}

/* Adds the bytes of a piece that is not in the vocabulary, if all of them have tokens. */
static neap_status add_bytes(struct word_encoder *e, const char *piece, size_t length, bool *added) {
  for (size_t i = 0; i < length; i++)
    if (e->model->bytes[(unsigned char)piece[i]] < 0) return NEAP_OK;
  for (size_t i = 0; i < length; i++) TRY(add_symbol(e, e->model->bytes[(unsigned char)piece[i]], 1));
  *added = true;
  return NEAP_OK;
}

/* Gives the piece of a character, with the model's prefix if it continues a word and its suffix if it is the
 * last. */
static neap_status spell(struct word_encoder *e, const char *character, size_t size, bool first, bool last,
                         const char **piece, size_t *length) {
  const struct token_model *m = e->model;
  const size_t before = first ? 0 : m->prefix_length, behind = last ? m->suffix_length : 0;
  *piece = character;
  *length = size;
  if (before + behind == 0) return NEAP_OK;
  TRY(vector_reserve(&e->spelling, before + size + behind));
  char *to = e->spelling.data;
  memcpy(to, m->prefix, before);
  memcpy(to + before, character, size);
  memcpy(to + before + size, m->suffix, behind);
  *piece = to;
  *length = before + size + behind;
  return NEAP_OK;
}

/* Unknown characters in a row, waiting for more. */
struct unknown {
  bool waits;
  size_t length;
};

static neap_status end_unknown(struct word_encoder *e, struct unknown *unknown) {
  if (!unknown->waits) return NEAP_OK;
  unknown->waits = false;
  return add_symbol(e, e->model->unknown, unknown->length);
}

static neap_status add_unknown(struct word_encoder *e, struct unknown *unknown, size_t size) {
  if (e->model->unknown < 0) return NEAP_OK; /* it is left out */
  if (unknown->waits && e->model->fuse_unknown) {
    unknown->length += size;
    return NEAP_OK;
  }
  TRY(end_unknown(e, unknown));
  *unknown = (struct unknown){true, size};
  return NEAP_OK;
}

static neap_status add_characters(struct word_encoder *e, const char *word, size_t length) {
  const struct token_model *m = e->model;
  struct unknown unknown = {0};
  const char *piece;
  size_t piece_length;
  e->symbols.count = 0;
  for (size_t at = 0, size; at < length; at += size) {
    size = character_size(word + at);
    TRY(spell(e, word + at, size, at == 0, at + size >= length, &piece, &piece_length));
    const int32_t id = vocabulary_find(&m->vocabulary, piece, piece_length);
    bool added = false;
    if (id >= 0) {
      TRY(end_unknown(e, &unknown));
      TRY(add_symbol(e, id, size));
      continue;
    }
    if (m->byte_fallback) TRY(add_bytes(e, piece, piece_length, &added));
    if (!added) TRY(add_unknown(e, &unknown, size));
  }
  return end_unknown(e, &unknown);
}

static bool is_before(const struct word_merge *a, const struct word_merge *b) {
  return a->rank != b->rank ? a->rank < b->rank : a->place < b->place;
}

static void sift_down(struct word_merge *heap, size_t count, size_t at) {
  const struct word_merge moved = heap[at];
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && is_before(&heap[child + 1], &heap[child])) child++;
    if (!is_before(&heap[child], &moved)) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

/* Returns the merge of a place with the next one; NULL: none. */
static const struct token_merge *find_merge(const struct word_encoder *e, int32_t place) {
  const struct word_symbol *left = &e->symbols.data[place];
  if (left->behind < 0) return NULL;
  const struct pair pair = {left->id, e->symbols.data[left->behind].id};
  const int32_t number = pair_table_find(&e->model->pairs, pair);
  return number >= 0 ? &e->model->merges.data[number] : NULL;
}

static neap_status add_merge(struct word_encoder *e, int32_t place) {
  const struct token_merge *merge = place >= 0 ? find_merge(e, place) : NULL;
  if (merge == NULL) return NEAP_OK;
  const struct word_merge added = {merge->rank, place, merge->id};
  TRY(vector_push(&e->heap, added));
  struct word_merge *heap = e->heap.data;
  size_t at = e->heap.count - 1;
  for (; at > 0 && is_before(&added, &heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = added;
  return NEAP_OK;
}

static neap_status merge_symbols(struct word_encoder *e) {
  struct word_symbol *symbols = e->symbols.data;
  e->heap.count = 0;
  for (size_t i = 0; i + 1 < e->symbols.count; i++) TRY(add_merge(e, (int32_t)i));
  while (e->heap.count > 0) {
    const struct word_merge top = e->heap.data[0];
    e->heap.data[0] = e->heap.data[--e->heap.count];
    if (e->heap.count > 1) sift_down(e->heap.data, e->heap.count, 0);
    struct word_symbol *left = &symbols[top.place];
    const struct token_merge *merge = left->length > 0 ? find_merge(e, top.place) : NULL;
    if (merge == NULL || merge->id != top.id) continue; /* one of the two was merged meanwhile */
    struct word_symbol *right = &symbols[left->behind];
    left->id = top.id;
    left->length += right->length;
    right->length = 0;
    left->behind = right->behind;
    if (left->behind >= 0) symbols[left->behind].before = top.place;
    TRY(add_merge(e, left->before));
    TRY(add_merge(e, top.place));
  }
  return NEAP_OK;
}

static neap_status encode_pairs(struct word_encoder *e, const char *word, size_t length) {
  TRY(add_characters(e, word, length));
  TRY(merge_symbols(e));
  for (size_t i = 0; i < e->symbols.count; i++)
    if (e->symbols.data[i].length > 0) TRY(give(e, e->symbols.data[i].id, e->symbols.data[i].length));
  return NEAP_OK;
}

/* ---- WordPiece ---- */

/* Finds the longest piece that [at, length) of a word begins with; -1: none. */
static neap_status find_longest(struct word_encoder *e, const char *word, size_t length, size_t at,
                                int32_t *id, size_t *size) {
  const struct token_model *m = e->model;
  const size_t before = at > 0 ? m->prefix_length : 0;
  *id = -1;
  *size = length - at;
  if (before > m->vocabulary.longest) return NEAP_OK;
  if (*size > m->vocabulary.longest - before) *size = m->vocabulary.longest - before;
  TRY(vector_reserve(&e->spelling, before + *size + 1));
  memcpy(e->spelling.data, m->prefix, before);
  memcpy(e->spelling.data + before, word + at, *size);
  for (; *size > 0; --*size) {
    if (at + *size < length && ((unsigned char)word[at + *size] & 0xC0) == 0x80) continue;
    *id = vocabulary_find(&m->vocabulary, e->spelling.data, before + *size);
    if (*id >= 0) return NEAP_OK;
  }
  return NEAP_OK;
}

static neap_status encode_pieces(struct word_encoder *e, const char *word, size_t length) {
  uint64_t characters = 0;
  int32_t id;
  for (size_t i = 0; i < length; i++) characters += ((unsigned char)word[i] & 0xC0) != 0x80;
  if (characters > e->model->most_characters) return give(e, e->model->unknown, length);
  for (size_t at = 0, size; at < length; at += size) {
    TRY(find_longest(e, word, length, at, &id, &size));
    if (id < 0) { /* then all of the word is unknown */
      e->made.count = 0;
      return give(e, e->model->unknown, length);
    }
    TRY(give(e, id, size));
  }
  return NEAP_OK;
}

/* ---- Unigram ---- */

static const uint32_t no_path = UINT32_MAX;

/* Takes a token from `from` to `to` where that is the best way to `to` so far. */
static void take_path(struct word_encoder *e, size_t from, size_t to, double score, int32_t id) {
  struct word_path *path = &e->paths.data[to];
  score += e->paths.data[from].score;
  if (path->from == no_path || score > path->score) *path = (struct word_path){score, (uint32_t)from, id};
}

/* Finds the best way to each place of the word. */
static neap_status find_paths(struct word_encoder *e, const char *word, size_t length) {
  const struct token_model *m = e->model;
  TRY(vector_reserve(&e->paths, length + 1));
  for (size_t i = 0; i <= length; i++) e->paths.data[i] = (struct word_path){0, no_path, -1};
  for (size_t at = 0, size; at < length; at += size) {
    struct piece_range range = {0, m->sorted.count};
    bool single = false;
    size = character_size(word + at);
    for (size_t depth = 0; at + depth < length && range.low < range.high; depth++) {
      const int32_t id = token_model_narrow(m, depth, word[at + depth], &range);
      if (id < 0) continue;
      take_path(e, at, at + depth + 1, m->scores.data[id], id);
      single = single || depth + 1 == size;
    }
    if (single) continue;
    RETURN_IF(m->unknown < 0, NEAP_UNSUPPORTED,
              "the tokenizer has no piece for '%.*s', and no unknown token; leave such text out", (int)size,
              word + at);
    take_path(e, at, at + size, m->unknown_score, m->unknown);
  }
  return NEAP_OK;
}

/* Gives what covers a part of the word: a piece, the tokens of its bytes, or the unknown token. */
static neap_status give_part(struct word_encoder *e, const char *part, size_t length) {
  const struct token_model *m = e->model;
  const int32_t id = vocabulary_find(&m->vocabulary, part, length);
  bool bytes = id < 0 && m->byte_fallback;
  if (id >= 0) return give(e, id, length);
  for (size_t i = 0; bytes && i < length; i++) bytes = m->bytes[(unsigned char)part[i]] >= 0;
  if (!bytes) return give(e, m->unknown, length);
  for (size_t i = 0; i < length; i++) TRY(give(e, m->bytes[(unsigned char)part[i]], i == 0 ? length : 0));
  return NEAP_OK;
}

/* Gives the parts of the best way; unknown characters in a row are one part. */
static neap_status encode_best(struct word_encoder *e, const char *word, size_t length) {
  TRY(find_paths(e, word, length));
  struct word_path *paths = e->paths.data, path = paths[length];
  const int32_t unknown = e->model->unknown;
  /* Turns the way around: each part's beginning gets its end and its token. */
  for (size_t to = length; to > 0;) {
    const size_t from = path.from;
    const struct word_path before = paths[from];
    paths[from] = (struct word_path){0, (uint32_t)to, path.id};
    path = before;
    to = from;
  }
  for (size_t at = 0, end; at < length; at = end) {
    end = paths[at].from;
    while (paths[at].id == unknown && end < length && paths[end].id == unknown) end = paths[end].from;
    TRY(give_part(e, word + at, end - at));
  }
  return NEAP_OK;
}

/* ---- Repeated words ---- */

static void forget(struct word_encoder *e) {
  word_table_free(&e->words);
  region_free(&e->region);
  e->known.count = e->tokens.count = 0;
}

static neap_status encode_new(struct word_encoder *e, const char *word, size_t length) {
  switch (e->model->kind) {
  case MODEL_BPE:
    return encode_pairs(e, word, length);
  case MODEL_WORD_PIECE:
    return encode_pieces(e, word, length);
  case MODEL_UNIGRAM:
    return encode_best(e, word, length);
  }
  return NEAP_OK;
}

/* Keeps a word that was added to the table with its tokens: those of `made` from `first` on. */
static neap_status keep(struct word_encoder *e, int32_t number, size_t first) {
  struct word *word = &e->words.words.data[number];
  word->bytes = region_copy(&e->region, word->bytes, word->length, 1);
  RETURN_IF_NULL(word->bytes);
  TRY(vector_push(&e->known,
                  (struct known_word){(uint32_t)e->tokens.count, (uint32_t)(e->made.count - first)}));
  for (size_t i = first; i < e->made.count; i++) TRY(vector_push(&e->tokens, e->made.data[i]));
  return NEAP_OK;
}

/* Appends the tokens of a word that is merged by itself. */
static neap_status encode_part(struct word_encoder *e, const char *word, size_t length) {
  const size_t first = e->made.count;
  int32_t number;
  if (length > KNOWN_BYTES) return encode_new(e, word, length);
  if (e->known.count == KNOWN_WORDS || e->tokens.count > KNOWN_TOKENS) forget(e);
  TRY(word_table_add(&e->words, word, length, &number));
  if ((size_t)number < e->known.count) {
    const struct known_word known = e->known.data[number];
    for (uint32_t i = 0; i < known.count; i++) {
      const struct word_token token = e->tokens.data[known.first + i];
      TRY(vector_push(&e->made, token));
    }
    return NEAP_OK;
  }
  TRY(encode_new(e, word, length));
  return keep(e, number, first);
}

/* Returns true if no merge ever crosses the place before `word + at`: no merge joins the character before it
 * with the one after it, and both are in the vocabulary. */
static bool is_border(const struct token_model *m, const char *word, size_t before, size_t at) {
  const size_t size = character_size(word + at);
  uint32_t left, right;
  utf8_decode(word + before, at - before, &left);
  utf8_decode(word + at, size, &right);
  return pair_table_find(&m->joints, (struct pair){(int32_t)left, (int32_t)right}) < 0 &&
         vocabulary_find(&m->vocabulary, word + before, at - before) >= 0 &&
         vocabulary_find(&m->vocabulary, word + at, size) >= 0;
}

/* Encodes a long word in parts, cut where that makes no difference. */
static neap_status encode_long(struct word_encoder *e, const char *word, size_t length) {
  size_t start = 0;
  for (size_t before = 0, at = character_size(word); at < length; at += character_size(word + at)) {
    if (is_border(e->model, word, before, at)) {
      TRY(encode_part(e, word + start, at - start));
      start = at;
    }
    before = at;
  }
  return encode_part(e, word + start, length - start);
}

neap_status word_encode(struct word_encoder *e, const char *word, size_t length) {
  const struct token_model *m = e->model;
  e->made.count = 0;
  if (length == 0) return NEAP_OK;
  RETURN_IF(length >= INT32_MAX, NEAP_TOO_LARGE, "a word of %zu bytes is too long for a tokenizer", length);
  if (m->ignore_merges) {
    const int32_t id = vocabulary_find(&m->vocabulary, word, length);
    if (id >= 0) return give(e, id, length);
  }
  const bool may_cut = m->kind == MODEL_BPE && m->prefix_length == 0 && m->suffix_length == 0;
  return may_cut && length > KNOWN_BYTES ? encode_long(e, word, length) : encode_part(e, word, length);
}

void word_encoder_free(struct word_encoder *e) {
  forget(e);
  vector_free(&e->made);
  vector_free(&e->symbols);
  vector_free(&e->heap);
  vector_free(&e->spelling);
  vector_free(&e->paths);
  vector_free(&e->known);
  vector_free(&e->tokens);
}
