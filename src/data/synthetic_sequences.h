/* Draws sequences. */
#ifndef NEAP_DATA_SYNTHETIC_SEQUENCES_H
#define NEAP_DATA_SYNTHETIC_SEQUENCES_H

#include "data/source.h"

/* Opens "synthetic" for tasks of sequences: tokens that mostly follow from the one before, or vectors that
 * show their class under noise. */
neap_status synthetic_sequences_open(uint64_t seed, struct source *source);

#endif
