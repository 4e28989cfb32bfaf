/* Placement within a capacity, first of what lives where it is tightest. */
#ifndef NEAP_LAYOUT_CORE_H
#define NEAP_LAYOUT_CORE_H

#include "layout/eject.h"

/* A plan that uses its budget is tight at a few positions of a long step, far apart and tied to each other by
 * what is kept from one to the next; the rest of the step has room. So the shapes that live at a position
 * with at least `share` hundredths of the capacity, the core, are placed alone, by the search among the large
 * ones (tiers.h) or by ejection, and the others follow around them by ejection, the tighter first.
 *
 * `work`: of ejection (eject.h); falls by what was used. Gives offsets and their height: within the capacity,
 * or as low as the others go around a core that is not; UINT64_MAX where nothing was found. */
neap_status place_by_core(const struct packing *packing, int share, uint64_t capacity, int64_t *work,
                          uint64_t *offsets, uint64_t *height);

#endif
