/* Tokenizers: text to ids of tokens, and back.
 *
 * Ids are those of the kind, from 0 on, then those of special tokens, in the order in which they were added.
 * Special tokens have names ("<pad>") and mean no text: nothing in a text becomes one, but characters
 * that the vocabulary does not have. A tokenizer of others has special tokens of its own, and finds them in a
 * text. */
#ifndef NEAP_TEXT_TOKENIZER_H
#define NEAP_TEXT_TOKENIZER_H

#include "text/bpe.h"
#include "text/passage.h"
#include "text/utf8.h"

struct pipeline;

#define TOKENIZER_UNKNOWN "<unk>" /* the special token that unknown characters become */

enum tokenizer_kind {
  TOKENIZER_BYTES,      /* ids 0 to 255; any text */
  TOKENIZER_BYTE_PAIRS, /* bpe.h; any text */
  TOKENIZER_CHARACTERS, /* the code points of a text, rising; UTF-8 */
  TOKENIZER_PIPELINE,   /* one of others: pipeline.h; UTF-8 */
};

/* To be read only. */
struct tokenizer {
  enum tokenizer_kind kind;
  struct bpe bpe;              /* of bytes too, without merges */
  VECTOR(uint32_t) characters; /* by id, rising */
  VECTOR(char *) special;      /* names of those that were added here */
  struct pipeline *pipeline;   /* of others; owned */
};

/* Each makes a tokenizer, to be freed with tokenizer_free. On failure none exists.
 *
 * Texts may lie in files. tokenizer_characters: all code points of the texts. NEAP_BAD_FORMAT: a text is not
 * UTF-8 (the message names file, line and column), or all are empty. tokenizer_learn: at most `vocabulary`
 * ids; errors and rules are those of bpe_learn. */
neap_status tokenizer_bytes(struct tokenizer **out);
neap_status tokenizer_characters(const struct text *texts, size_t count, struct tokenizer **out);
neap_status tokenizer_learn(const struct text *texts, size_t count, int32_t vocabulary,
                            struct tokenizer **out);
void tokenizer_free(struct tokenizer *tokenizer);

/* Made from what another one had: merges in their order, or rising code points. NEAP_INVALID_ARGUMENT: they
 * are not; `*bad` is the place of the first that is wrong, and the message says why. */
neap_status tokenizer_from_merges(const struct pair *merges, size_t count, size_t *bad,
                                  struct tokenizer **out);
neap_status tokenizer_from_code_points(const int32_t *codes, size_t count, size_t *bad,
                                       struct tokenizer **out);

/* Makes one of a pipeline, which it owns from then on, whatever the status. */
neap_status tokenizer_from_pipeline(struct pipeline *pipeline, struct tokenizer **out);

/* NEAP_INVALID_ARGUMENT: the name is empty, not UTF-8 or there already. A failure changes nothing. */
neap_status tokenizer_add_special(struct tokenizer *tokenizer, const char *name, int32_t *id);

/* The id of a special token; -1: there is none of that name. */
int32_t tokenizer_special(const struct tokenizer *tokenizer, const char *name);

/* The id of a special token, or of what means exactly that text in the vocabulary; -1: neither exists.
 */
int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *piece);

/* The tokens that begin and end a text, where a tokenizer of others names them; -1: none. */
int32_t tokenizer_bos(const struct tokenizer *tokenizer);
int32_t tokenizer_eos(const struct tokenizer *tokenizer);

/* How many ids a tokenizer of others sets behind a whole text (tokenizer_encode_places). */
int32_t tokenizer_behind(const struct tokenizer *tokenizer);

/* The text of an added token of a tokenizer of others, ended by a 0; NULL: the id is not one of these.
 * Borrowed. */
const char *tokenizer_added_text(const struct tokenizer *tokenizer, int32_t id);

/* How many ids there are. */
int32_t tokenizer_size(const struct tokenizer *tokenizer);

/* Appends the ids of a text in memory. They depend on nothing but tokenizer and text. On failure what was
 * appended is undone. NEAP_BAD_FORMAT, for characters: the text is not UTF-8, or it has a character that the
 * vocabulary does not have and there is no TOKENIZER_UNKNOWN; the message names file, line and column. A
 * tokenizer of others does not set tokens before and behind the text. */
neap_status tokenizer_encode(const struct tokenizer *tokenizer, const struct text *text,
                             struct token_ids *ids);

/* The same with where each token ends: `ends` (may be NULL) gets the place in the text behind the last byte
 * that it means, rising. If `whole`, with what a tokenizer of others sets before and behind a text.
 * Errors as above, and of tokenizers of others: NEAP_UNSUPPORTED: a pattern takes too many steps on this
 * text. */
neap_status tokenizer_encode_places(const struct tokenizer *tokenizer, const struct text *text, bool whole,
                                    struct token_ids *ids, struct places *ends);

/* The text of ids, for the caller to free, and its length; a 0 follows it. Special tokens give no bytes, and
 * what was encoded without an unknown character is the same again; a tokenizer of others gives what its
 * decoder makes of them. NEAP_INVALID_ARGUMENT: something is no id. */
neap_status tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, char **text,
                             size_t *length);

#endif
