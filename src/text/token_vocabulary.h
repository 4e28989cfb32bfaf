/* Tokenizers that are given as lists: what a GGUF file holds, and vocab.json with merges.txt. Both become
 * what a tokenizer.json would say. */
#ifndef NEAP_TEXT_TOKEN_VOCABULARY_H
#define NEAP_TEXT_TOKEN_VOCABULARY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* What a GGUF file says of its tokens. Strings are borrowed for the call. */
struct token_vocabulary {
  const char *file;        /* for messages */
  const char *model, *pre; /* "gpt2", "llama", "bert"; pre may be NULL */
  int32_t count;           /* of tokens */
  const char *const *tokens;
  const size_t *lengths; /* bytes [count]; may hold zeros */
  const float *scores;   /* [count] or NULL */
  const int32_t *types;  /* [count] or NULL: 1 normal 2 unknown 3 control 4 user 5 unused 6 byte */
  int32_t merge_count;
  const char *const *merges;              /* "a b" */
  int32_t bos, eos, unknown, padding;     /* -1: none */
  int add_bos, add_eos, add_space_prefix; /* -1: not said */
};

/* The content of a tokenizer.json that gives the same ids, for the caller to free with json_decref.
 * NEAP_UNSUPPORTED: there is no row for the model, or for `pre`. NEAP_BAD_FORMAT: a token is not UTF-8, or
 * something that the model needs is missing. */
neap_status token_vocabulary_to_json(const struct token_vocabulary *v, json_t **out);

/* The normalizer, pre-tokenizer and decoder of a vocabulary of bytes, and ignore_merges, in `*out`, which the
 * caller frees. `pre` is GGUF's word for the way in which text is split (NULL: "default"). NEAP_UNSUPPORTED:
 * there is no row for it. */
neap_status byte_pairs_to_json(const char *pre, bool prefix_space, const char *file, json_t **out);

/* GGUF's word for the way in which a tokenizer.json of bytes splits text; NULL: GGUF has no word
 * for it. `*prefix_space`: a space is set before a text. */
const char *byte_pairs_pre(const json_t *tokenizer, bool *prefix_space);

/* A TemplateProcessing with these tokens before and behind a text; NULL and -1: none. */
json_t *template_to_json(const char *before, int32_t before_id, const char *behind, int32_t behind_id);

/* An added token. */
json_t *added_token_to_json(json_t *content, int32_t id, bool special);

#endif
