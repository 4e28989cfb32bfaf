/* Tokenizers given as lists: those of a GGUF file, or vocab.json with merges.txt. Both are turned into the
 * content of a tokenizer.json. */
#ifndef NEAP_TEXT_TOKEN_VOCABULARY_H
#define NEAP_TEXT_TOKEN_VOCABULARY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* The tokens of a GGUF file. Strings are borrowed for the call. */
struct token_vocabulary {
  const char *file;        /* for messages */
  const char *model, *pre; /* "gpt2", "llama", "bert", "t5"; pre may be NULL */
  int32_t count;           /* of tokens */
  const char *const *tokens;
  const size_t *lengths; /* bytes [count]; may hold zeros */
  const float *scores;   /* [count] or NULL */
  const int32_t *types;  /* [count] or NULL: 1 normal 2 unknown 3 control 4 user 5 unused 6 byte */
  int32_t merge_count;
  const char *const *merges;              /* "a b" */
  int32_t bos, eos, unknown, padding;     /* -1: none */
  int add_bos, add_eos, add_space_prefix; /* -1: not given */
  int remove_spaces;                      /* of t5: several spaces become one; -1: not given */
  const unsigned char *map;               /* of t5: the map of characters (character_map.h); NULL: none */
  size_t map_bytes;
};

/* Gives the content of a tokenizer.json with the same ids, for the caller to free with json_decref.
 * NEAP_UNSUPPORTED: the model, or `pre`, has no row. NEAP_BAD_FORMAT: a token is not UTF-8, or something that
 * the model needs is missing. */
neap_status token_vocabulary_to_json(const struct token_vocabulary *v, json_t **out);

/* Gives the normalizer, pre-tokenizer and decoder of a vocabulary of bytes, and ignore_merges, in `*out`,
 * which the caller frees. `pre` is GGUF's word for the way of splitting text (NULL: "default").
 * NEAP_UNSUPPORTED: it has no row. */
neap_status byte_pairs_to_json(const char *pre, bool prefix_space, const char *file, json_t **out);

/* Returns GGUF's word for the way in which a tokenizer.json of bytes splits text; NULL: GGUF has none.
 * `*prefix_space`: a space is added before a text. */
const char *byte_pairs_pre(const json_t *tokenizer, bool *prefix_space);

/* Returns a TemplateProcessing with these tokens before and after a text; NULL and -1: none. */
json_t *template_to_json(const char *before, int32_t before_id, const char *behind, int32_t behind_id);

/* Returns an added token. */
json_t *added_token_to_json(json_t *content, int32_t id, bool special);

#endif
