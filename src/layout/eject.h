/* Placement within a capacity by ejection. */
#ifndef NEAP_LAYOUT_EJECT_H
#define NEAP_LAYOUT_EJECT_H

#include <stdbool.h>

#include "base/status.h"
#include "layout/shape.h"

/* Mends a placement that is too high. What sticks out of the capacity is taken out; then, shape by shape,
 * each goes where it displaces least, and what it displaces goes to a new place in turn. A shape weighs the
 * more the more often it was displaced, so no two chase each other for ever. A step looks only at what lives
 * at the same time, so a placement that sticks out in one stretch of a long step is mended there and stays
 * elsewhere.
 *
 * `stage_of`: by shape, from 0 on: a shape is missing before those of all earlier stages are placed; NULL:
 * all are from the start. `work`: of neighbours looked at; falls by what was used. `offsets` are where
 * those of the first stage start from, UINT64_MAX where a shape has none; where `found`, they are a placement
 * within the capacity, else they are as they were. */
neap_status place_by_ejection(const struct packing *packing, const int32_t *stage_of, uint64_t capacity,
                              int64_t *work, uint64_t *offsets, bool *found);

#endif
