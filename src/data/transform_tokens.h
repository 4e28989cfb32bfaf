/* Transforms of tokens. */
#ifndef NEAP_DATA_TRANSFORM_TOKENS_H
#define NEAP_DATA_TRANSFORM_TOKENS_H

#include "data/transform.h"

/* next_token: gives the first T tokens of a window of T + 1, and the tokens that follow them as labels.
 * masked_token: gives the first T, some of them masked, and the masked ones as labels.
 * pad: gives a source and a target of any lengths as "source", "tokens" and "label" of one length. A source
 * ends with </s> and is padded with -1. A target begins with </s>; its labels are the tokens that follow
 * and </s> at the end.
 * answers: gives the tokens of a conversation as "tokens" and "label". The labels are the tokens that follow
 * and carry loss; others are -1, also after the end, where tokens are 0 and no earlier token sees them. A
 * token without loss is stored as its complement, ~id.
 *
 * transform_text: gives the tokens of a text, padded with -1. */
extern const struct transform transform_next_token, transform_masked_token, transform_pad, transform_answers,
    transform_text;

#endif
