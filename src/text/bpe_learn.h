/* Learning byte-pair codes from texts. */
#ifndef NEAP_TEXT_BPE_LEARN_H
#define NEAP_TEXT_BPE_LEARN_H

#include "text/bpe.h"
#include "text/utf8.h"

/* A zeroed bpe becomes one of at most `size` tokens, 256 or more. Again and again the pair of tokens is
 * merged that stands most often beside each other in the words of the texts; of those that stand equally
 * often, the one whose left token has the lower id, then its right one. In "aaa" the pair of two a stands
 * twice, and is merged once, at the first place. A pair that stands once, or makes a token of more than
 * TOKEN_MAX_BYTES, is not merged: where there is no other, learning ends with fewer tokens.
 *
 * Takes O(n log n) steps in the bytes of the different words. Free with bpe_free, whatever the status.
 * NEAP_TOO_LARGE: the different words have 2^31 bytes. */
neap_status bpe_learn(const struct text *texts, size_t count, int32_t size, struct bpe *bpe);

#endif
