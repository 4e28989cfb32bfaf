/* Placement within a capacity by ejection. */
#ifndef NEAP_LAYOUT_EJECT_H
#define NEAP_LAYOUT_EJECT_H

#include <stdbool.h>

#include "base/status.h"
#include "layout/shape.h"

/* Mends a placement that is too high. Shapes that exceed the capacity are taken out. Then, one by one, each
 * goes where it displaces least, and the displaced shapes get new places in turn. A shape becomes heavier
 * each time it is displaced, so no two displace each other for ever. A step only looks at shapes that live at
 * the same time, so a placement that is too high in one stretch of a long step is mended there and stays
 * elsewhere.
 *
 * `stage_of`: by shape, from 0 on: a shape enters once those of all earlier stages are placed; NULL: all
 * enter at the start. `work`: of neighbours looked at; falls by the work used. `offsets`: where shapes of the
 * first stage start, UINT64_MAX for none. If `found`, they become a placement within the capacity, else they
 * are unchanged. */
neap_status place_by_ejection(const struct packing *packing, const int32_t *stage_of, uint64_t capacity,
                              int64_t *work, uint64_t *offsets, bool *found);

#endif
