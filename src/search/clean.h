/* Cleaning a schedule of recomputations that the budget does not need. */
#ifndef NEAP_SEARCH_CLEAN_H
#define NEAP_SEARCH_CLEAN_H

#include "step/simulate.h"

/* Copies a valid schedule without the repeats that can be left out while the peak stays within `budget`,
 * dearest first. `score` is that of the result. `out` starts
 * empty and is to be freed also after a failure. */
neap_status schedule_clean(struct simulator *simulator, uint64_t budget, const int32_t *schedule,
                           int32_t length, struct schedule *out, struct simulation *score);

#endif
