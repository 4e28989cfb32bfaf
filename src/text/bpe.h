/* Byte-pair codes (Gage 1994; Sennrich, Haddow, Birch 2016), over bytes as in GPT-2: a token is a byte, ids 0
 * to 255, or two neighbouring tokens that were merged. */
#ifndef NEAP_TEXT_BPE_H
#define NEAP_TEXT_BPE_H

#include "text/pair_table.h"

enum { BYTE_TOKENS = 256, TOKEN_MAX_BYTES = 256 };

/* Ids in order, a vector (base/vector.h). */
struct token_ids {
  int32_t *data;
  size_t count, capacity;
};

struct bpe {
  struct pair_table merges; /* the pair of number i is token 256 + i */
  VECTOR(char) spelling;    /* the bytes of all tokens, in the order of their ids */
  VECTOR(size_t) ends;      /* of each token in them */
};

/* Makes a zeroed bpe one of bytes alone. Free with bpe_free, whatever the status. */
neap_status bpe_start(struct bpe *bpe);
void bpe_free(struct bpe *bpe);

static inline int32_t bpe_size(const struct bpe *bpe) { return (int32_t)bpe->ends.count; }

/* Returns the bytes of a token, 1 to TOKEN_MAX_BYTES, and their number; valid until the next merge. */
const char *bpe_token(const struct bpe *bpe, int32_t id, size_t *length);

/* Returns the reason why two tokens cannot be merged; NULL: they can. */
const char *bpe_refusal(const struct bpe *bpe, struct pair pair);

/* Merges two tokens into the next one. NEAP_INVALID_ARGUMENT: they cannot be merged. */
neap_status bpe_merge(struct bpe *bpe, struct pair pair);

/* Appends the tokens of a text (`length` bytes, any). Each of its words (words.h) starts as single bytes. As
 * long as two neighbours can be merged, the earliest learned merge is applied, at its first place. On failure
 * nothing is appended. NEAP_TOO_LARGE: a word has 2^31 bytes. */
neap_status bpe_encode(const struct bpe *bpe, const char *bytes, size_t length, struct token_ids *ids);

#endif
