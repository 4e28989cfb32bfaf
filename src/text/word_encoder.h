/* Turns words into ids with a model (token_model.h). */
#ifndef NEAP_TEXT_WORD_ENCODER_H
#define NEAP_TEXT_WORD_ENCODER_H

#include "base/region.h"
#include "text/token_model.h"
#include "text/word_table.h"

/* An id, and the number of bytes of a word that it covers. */
struct word_token {
  int32_t id;
  uint32_t length;
};

/* A token that may be merged with its neighbours. */
struct word_symbol {
  int32_t id;
  int32_t before, behind; /* places of its neighbours; -1: none */
  uint32_t length;        /* Two neighbours that may be merged. */
};

/* Two neighbours that may be merged. */
struct word_merge {
  int32_t rank, place, id;
};

/* The best way to a place in a word: the token that ends there, and where it begins. */
struct word_path {
  double score;
  uint32_t from; /* UINT32_MAX: no way leads here */
  int32_t id;
};

/* The tokens of a word that was encoded, for when it comes again. */
struct known_word {
  uint32_t first, count; /* of tokens */
};

/* The state of encoding one text, for one thread: zeroed except for the model. */
struct word_encoder {
  const struct token_model *model;
  VECTOR(struct word_token) made; /* of the last word */
  VECTOR(struct word_symbol) symbols;
  VECTOR(struct word_merge) heap;
  VECTOR(char) spelling; /* of a piece that is looked for */
  VECTOR(struct word_path) paths;
  struct word_table words;
  struct region region; /* owns the bytes of words */
  VECTOR(struct known_word) known;
  VECTOR(struct word_token) tokens;
};

/* Sets `made` to the tokens of a word of UTF-8. Takes O(n log n) steps. NEAP_TOO_LARGE: the word has 2^31
 * bytes. */
neap_status word_encode(struct word_encoder *encoder, const char *word, size_t length);

void word_encoder_free(struct word_encoder *encoder);

#endif
