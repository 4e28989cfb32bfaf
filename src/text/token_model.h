/* Models of tokenizer.json: turn words into ids. BPE (Sennrich, Haddow, Birch 2016), WordPiece (Wu et al.
 * 2016) and Unigram (Kudo 2018), as in PyPI's `tokenizers`. */
#ifndef NEAP_TEXT_TOKEN_MODEL_H
#define NEAP_TEXT_TOKEN_MODEL_H

#include "formats/json.h"
#include "text/pair_table.h"
#include "text/vocabulary.h"

enum token_model_kind { MODEL_BPE, MODEL_WORD_PIECE, MODEL_UNIGRAM };

/* The result of merging two neighbouring ids, and the rank of that merge. */
struct token_merge {
  int32_t rank, id;
};

/* Read-only for others. */
struct token_model {
  enum token_model_kind kind;
  struct vocabulary vocabulary;
  struct pair_table pairs;           /* of BPE: ids that are merged */
  VECTOR(struct token_merge) merges; /* by a pair's number */
  struct pair_table joints;          /* the characters on the two sides of a merge */
  char *prefix, *suffix;             /* of pieces that continue a word, and that end one; "": none */
  size_t prefix_length, suffix_length;
  int32_t unknown; /* the id of text that is not in the vocabulary; -1: none */
  bool byte_fallback, fuse_unknown, ignore_merges;
  int32_t bytes[256];       /* ids of <0x00>, <0x01>, ...; -1: none */
  uint64_t most_characters; /* WordPiece: of a word; a longer one is unknown */
  VECTOR(double) scores;    /* Unigram: of each id */
  VECTOR(int32_t) sorted;   /* Unigram: the numbers of the pieces in the order of their bytes */
  double unknown_score;     /* Unigram: of a character that is no piece */
};

/* Narrows `range`, pieces of `sorted` that begin with the same `depth` bytes, to those that go on with
 * `byte`. Returns the id of the one that ends there; -1: none does. */
struct piece_range {
  size_t low, high;
};
int32_t token_model_narrow(const struct token_model *model, size_t depth, char byte,
                           struct piece_range *range);

/* Makes a model from the field "model" of a tokenizer.json. NEAP_UNSUPPORTED: another model, or dropout.
 * NEAP_BAD_FORMAT: it is invalid. Free with token_model_free, whatever the status. */
neap_status token_model_parse(const json_t *object, const struct json_place *place,
                              struct token_model *model);
void token_model_free(struct token_model *model);

/* Sets "vocab", and "merges" if the model has them, in such an object. */
neap_status token_model_write(const struct token_model *model, json_t *object);

#endif
