/* Draws the records that are held out to test with. */
#ifndef NEAP_DATA_HOLDOUT_H
#define NEAP_DATA_HOLDOUT_H

#include "data/source.h"

/* Chooses a share of `count` records at random: at least one, and not all. `share` NULL: "0.1"; `seed` NULL:
 * "0". held [count] belongs to the source. NEAP_INVALID_ARGUMENT: a text is not such a number, or there are
 * fewer than two records. */
neap_status holdout_draw(struct source *source, const char *share, const char *seed, int64_t count,
                         bool **held);

#endif
