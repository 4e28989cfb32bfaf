/* Tokenizers of others, as a tokenizer.json of Hugging Face's `tokenizers` describes them. A text is split at
 * added tokens. The text between them is normalized, split at the added tokens that are normalized, and split
 * into words. The model turns words into ids, and the post-processor adds ids before and after. The ids are
 * those of PyPI's `tokenizers`. */
#ifndef NEAP_TEXT_PIPELINE_H
#define NEAP_TEXT_PIPELINE_H

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/token_model.h"
#include "text/utf8.h"

/* Read-only for others. */
struct pipeline {
  json_t *rest; /* its description, without vocabulary and merges */
  struct token_model model;
  struct added_tokens added;
  struct steps normalizer, pre_tokenizer, decoder;
  struct post_processor post;
  int32_t bos, eos; /* -1: none is known */
  int32_t size;     /* one more than the highest id */
};

/* Makes a pipeline from the content of a tokenizer.json. `file` is for messages. NEAP_BAD_FORMAT: the content
 * is invalid. NEAP_UNSUPPORTED: no row handles one of its components; the message names it. */
neap_status pipeline_create(const json_t *object, const char *file, struct pipeline **out);
void pipeline_free(struct pipeline *pipeline);

/* Gives the same content again, for the caller to free with json_decref. */
neap_status pipeline_to_json(const struct pipeline *pipeline, json_t **out);

/* Appends the ids of a text, and where each ends (tokenizer_encode_places). On failure ids and ends may be
 * longer than before. */
neap_status pipeline_encode(const struct pipeline *pipeline, const struct text *text, bool whole,
                            struct token_ids *ids, struct places *ends);

/* Gives the text of ids, for the caller to free, and its length; a 0 follows it. Special tokens and ids
 * without a meaning are left out. */
neap_status pipeline_decode(const struct pipeline *pipeline, const int32_t *ids, size_t count, char **text,
                            size_t *length);

/* Returns the id of an added token or a piece; -1: none exists. */
int32_t pipeline_find(const struct pipeline *pipeline, const char *piece);

#endif
