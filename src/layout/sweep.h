/* Offsets in the order of time: what an allocator would give that always takes the lowest place that is free.
 */
#ifndef NEAP_LAYOUT_SWEEP_H
#define NEAP_LAYOUT_SWEEP_H

#include "base/status.h"
#include "layout/shape.h"

/* One offset for each shape, as if it had its largest size from its first position to its last, and the
 * height of all; UINT64_MAX where that overflows, and then not every offset is set. O(n log n) where what is
 * free lies in few pieces, as it does in steps that keep everything and in chains; those it often places as
 * low as their lower bound. */
neap_status sweep_place(const struct shape *shapes, int32_t count, const struct span *spans,
                        uint64_t *offsets, uint64_t *height);

#endif
