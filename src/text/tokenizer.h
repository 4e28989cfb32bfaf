/* Tokenizers: text to ids of tokens, and back.
 *
 * Ids are those of the kind, from 0 on, then those of special tokens, in the order in which they were added.
 * Special tokens have names ("<pad>") and mean no text. Only characters that are not in the vocabulary become
 * one. A tokenizer of others has special tokens of its own, and finds them in a text. */
#ifndef NEAP_TEXT_TOKENIZER_H
#define NEAP_TEXT_TOKENIZER_H

#include "text/bpe.h"
#include "text/passage.h"
#include "text/utf8.h"

struct pipeline;

#define TOKENIZER_UNKNOWN "<unk>" /* the special token of unknown characters */

enum tokenizer_kind {
  TOKENIZER_BYTES,      /* ids 0 to 255; any text */
  TOKENIZER_BYTE_PAIRS, /* bpe.h; any text */
  TOKENIZER_CHARACTERS, /* the code points of a text, rising; UTF-8 */
  TOKENIZER_PIPELINE,   /* a tokenizer of others: pipeline.h; UTF-8 */
};

/* Read-only for others. */
struct tokenizer {
  enum tokenizer_kind kind;
  struct bpe bpe;              /* of bytes too, without merges */
  VECTOR(uint32_t) characters; /* by id, rising */
  VECTOR(char *) special;      /* names of tokens that were added here */
  struct pipeline *pipeline;   /* of others; owned */
};

/* Each makes a tokenizer, to be freed with tokenizer_free. On failure none exists.
 *
 * Texts may be in files. tokenizer_characters: all code points of the texts. NEAP_BAD_FORMAT: a text is not
 * UTF-8 (the message names file, line and column), or all are empty. tokenizer_learn: at most `vocabulary`
 * ids; errors and rules are those of bpe_learn. */
neap_status tokenizer_bytes(struct tokenizer **out);
neap_status tokenizer_characters(const struct text *texts, size_t count, struct tokenizer **out);
neap_status tokenizer_learn(const struct text *texts, size_t count, int32_t vocabulary,
                            struct tokenizer **out);
void tokenizer_free(struct tokenizer *tokenizer);

/* Makes a tokenizer from the data of another one: merges in their order, or rising code points.
 * NEAP_INVALID_ARGUMENT: these are invalid; `*bad` is the place of the first wrong one, and the message says
 * why. */
neap_status tokenizer_from_merges(const struct pair *merges, size_t count, size_t *bad,
                                  struct tokenizer **out);
neap_status tokenizer_from_code_points(const int32_t *codes, size_t count, size_t *bad,
                                       struct tokenizer **out);

/* Makes a tokenizer of a pipeline, which it then owns, whatever the status. */
neap_status tokenizer_from_pipeline(struct pipeline *pipeline, struct tokenizer **out);

/* Adds a special token. NEAP_INVALID_ARGUMENT: the name is empty, not UTF-8 or exists already. A failure
 * changes nothing. */
neap_status tokenizer_add_special(struct tokenizer *tokenizer, const char *name, int32_t *id);

/* Returns the id of a special token; -1: none has this name. */
int32_t tokenizer_special(const struct tokenizer *tokenizer, const char *name);

/* Returns the id of a special token, or of the vocabulary's token with exactly this text; -1: neither
 * exists. */
int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *piece);

/* Return the tokens that begin and end a text, if a tokenizer of others names them; -1: none. */
int32_t tokenizer_bos(const struct tokenizer *tokenizer);
int32_t tokenizer_eos(const struct tokenizer *tokenizer);

/* Returns how many ids a tokenizer of others adds after a complete text (tokenizer_encode_places). */
int32_t tokenizer_behind(const struct tokenizer *tokenizer);

/* Returns the text of an added token of a tokenizer of others, with a 0 at its end; NULL: the id is not an
 * added token. Borrowed. */
const char *tokenizer_added_text(const struct tokenizer *tokenizer, int32_t id);

/* Returns the number of ids. */
int32_t tokenizer_size(const struct tokenizer *tokenizer);

/* Appends the ids of a text in memory; they depend only on tokenizer and text. On failure nothing is
 * appended. NEAP_BAD_FORMAT, for characters: the text is not UTF-8, or a character is not in the vocabulary
 * and there is no TOKENIZER_UNKNOWN; the message names file, line and column. A tokenizer of others does not
 * add tokens before and after the text. */
neap_status tokenizer_encode(const struct tokenizer *tokenizer, const struct text *text,
                             struct token_ids *ids);

/* The same, also giving where each token ends: `ends` (may be NULL) gets the place in the text after the last
 * byte that it means, rising. If `whole`, includes the tokens that a tokenizer of others adds before and
 * after a text. Errors as above, and of tokenizers of others: NEAP_UNSUPPORTED: a pattern takes too many
 * steps on this text. */
neap_status tokenizer_encode_places(const struct tokenizer *tokenizer, const struct text *text, bool whole,
                                    struct token_ids *ids, struct places *ends);

/* Gives the text of ids, for the caller to free, and its length; a 0 follows it. Special tokens give no
 * bytes, and a text that was encoded without an unknown character is restored exactly; a tokenizer of others
 * gives its decoder's result. NEAP_INVALID_ARGUMENT: a number is not an id. */
neap_status tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, char **text,
                             size_t *length);

#endif
