/* The large shapes first, by the exact search; the small ones into what that leaves. */
#ifndef NEAP_LAYOUT_TIERS_H
#define NEAP_LAYOUT_TIERS_H

#include "base/status.h"
#include "layout/shape.h"

/* Steps have a few hundred large values, which decide how high an arena gets, and many times as many small
 * ones, which fit almost anywhere but make the search for a placement of all of them hopeless. So whatever is
 * at least a share of the goal is searched for alone, as low as can be and then up to the goal, and the rest
 * goes around it in several orders; with smaller and smaller shares until the goal is met or `work`
 * (exact.h), which falls by what was used, is used up. Gives one offset for each shape, and their height:
 * UINT64_MAX where nothing was found. */
neap_status place_by_tiers(const struct shape *shapes, int32_t count, const struct span *spans, uint64_t goal,
                           int64_t *work, uint64_t *offsets, uint64_t *height);

#endif
