/* Records that are held out to test with, drawn by a seed. */
#ifndef NEAP_DATA_HOLDOUT_H
#define NEAP_DATA_HOLDOUT_H

#include "data/source.h"

/* Chooses a share of `count` records, "0.1" where `share` is NULL, by a seed, 0 where it is NULL: at least
 * one, and not all. held [count] is the source's. NEAP_INVALID_ARGUMENT: a text is no such number, or there
 * are fewer than two records. */
neap_status holdout_draw(struct source *source, const char *share, const char *seed, int64_t count,
                         bool **held);

#endif
