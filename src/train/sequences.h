/* Data sets of sequences: windows of a long row of tokens, or vectors that are drawn. */
#ifndef NEAP_TRAIN_SEQUENCES_H
#define NEAP_TRAIN_SEQUENCES_H

#include "train/data_source.h"

/* A set whose splits have `tokens` each, of which set->read_tokens gives any, becomes one of windows of
 * set->length tokens with labels as `kind` wants them: the next token each, or those that are masked.
 * `mask`: the token that stands for a masked one; `path`: of the file, for messages.
 *
 * Training windows begin anew in each epoch, at an offset that is drawn (augmentation), and do not overlap;
 * test windows cover everything, the last one filled up with labels -1. NEAP_INVALID_ARGUMENT: a split is
 * shorter than a window. */
neap_status sequences_of_tokens(struct data_set *set, const char *path, enum model_kind kind, int32_t mask);

/* What "synthetic" draws where sequences are wished: tokens that mostly follow from the one before, or
 * vectors that tell their class under noise. */
neap_status synthetic_sequences_open(uint64_t seed, struct data_set *set);

#endif
