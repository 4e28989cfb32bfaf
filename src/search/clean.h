/* Removes recomputations that the budget does not need from a schedule. */
#ifndef NEAP_SEARCH_CLEAN_H
#define NEAP_SEARCH_CLEAN_H

#include "step/simulate.h"

/* Copies a valid schedule without the repeats that can be left out while the peak stays within `budget`, the
 * most expensive first. `score` is that of the result. `out` starts empty; free it also after a failure. */
neap_status schedule_clean(struct simulator *simulator, uint64_t budget, const int32_t *schedule,
                           int32_t length, struct schedule *out, struct simulation *score);

#endif
