/* Transforms of tokens. */
#ifndef NEAP_DATA_TRANSFORM_TOKENS_H
#define NEAP_DATA_TRANSFORM_TOKENS_H

#include "data/transform.h"

/* next_token: of a window of T + 1 tokens the first T, and as labels those that follow.
 * masked_token: the first T, of which some are masked, and these as labels.
 * pad: of a source and a target of any lengths "source", "tokens" and "label" of one length: a source ends
 * with </s>, and where it ends before its sequence -1 follows; a target begins with </s>, and its labels are
 * what follows, </s> at the end.
 * answers: of the tokens of a conversation "tokens" and "label", the tokens that follow and carry loss;
 * others, and what is behind its end, are -1 (and tokens 0 there, which no token before them sees). A token
 * without loss is its complement, ~id.
 *
 * transform_text: the tokens of a text, with -1 behind its end. */
extern const struct transform transform_next_token, transform_masked_token, transform_pad, transform_answers,
    transform_text;

#endif
