/* Tokenizers of others, as a tokenizer.json of Hugging Face's `tokenizers` describes them. A text is split at
 * added tokens; what is between becomes what the normalizer makes of it, is split at the added tokens that
 * are normalized, and into words; the model makes ids of words; the post-processor sets ids before and
 * behind. The ids are those that PyPI's `tokenizers` gives. */
#ifndef NEAP_TEXT_PIPELINE_H
#define NEAP_TEXT_PIPELINE_H

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/token_model.h"
#include "text/utf8.h"

/* To be read only. */
struct pipeline {
  json_t *rest; /* what it was made of, without vocabulary and merges */
  struct token_model model;
  struct added_tokens added;
  struct steps normalizer, pre_tokenizer, decoder;
  struct post_processor post;
  int32_t bos, eos; /* -1: none is known */
  int32_t size;     /* one more than the highest id */
};

/* Makes one of the content of a tokenizer.json. `file` is for messages. NEAP_BAD_FORMAT: it is wrong.
 * NEAP_UNSUPPORTED: it has a component that there is no row for; the message names it. */
neap_status pipeline_create(const json_t *object, const char *file, struct pipeline **out);
void pipeline_free(struct pipeline *pipeline);

/* The same content again, for the caller to free with json_decref. */
neap_status pipeline_to_json(const struct pipeline *pipeline, json_t **out);

/* Appends the ids of a text, and for each where it ends (tokenizer_encode_places). On failure ids and ends
 * may have more than before. */
neap_status pipeline_encode(const struct pipeline *pipeline, const struct text *text, bool whole,
                            struct token_ids *ids, struct places *ends);

/* The text of ids, for the caller to free, and its length; a 0 follows it. Special tokens and ids that stand
 * for nothing are left out. */
neap_status pipeline_decode(const struct pipeline *pipeline, const int32_t *ids, size_t count, char **text,
                            size_t *length);

/* The id of an added token or a piece; -1: none exists. */
int32_t pipeline_find(const struct pipeline *pipeline, const char *piece);

#endif
