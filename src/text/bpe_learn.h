/* Learns byte-pair codes from texts. */
#ifndef NEAP_TEXT_BPE_LEARN_H
#define NEAP_TEXT_BPE_LEARN_H

#include "text/bpe.h"
#include "text/utf8.h"

/* Makes a zeroed bpe one of at most `size` tokens, 256 or more. Again and again it merges the pair of tokens
 * that are most often neighbours in the words of the texts; among equals, the pair whose left token has the
 * lower id, then whose right one has. In "aaa" the pair of two a occurs twice, and is merged once, at the
 * first place. A pair that occurs once, or makes a token of more than TOKEN_MAX_BYTES, is not merged: without
 * another one, learning ends with fewer tokens.
 *
 * Takes O(n log n) steps in the bytes of the distinct words. Free with bpe_free, whatever the status.
 * NEAP_TOO_LARGE: the distinct words have 2^31 bytes. */
neap_status bpe_learn(const struct text *texts, size_t count, int32_t size, struct bpe *bpe);

#endif
