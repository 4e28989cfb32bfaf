/* What one pass in the order of time tells: how much lives at once, and the offsets that an allocator would
 * give which always takes the lowest place that is free. */
#ifndef NEAP_LAYOUT_SWEEP_H
#define NEAP_LAYOUT_SWEEP_H

#include "base/status.h"
#include "layout/shape.h"

/* The largest sum of sizes at one position: no height is lower. NEAP_TOO_LARGE: it does not fit 64 bits. */
neap_status sweep_live(const struct packing *packing, uint64_t *live);

/* One offset for each shape, as if it had its largest size from its first position to its last, and the
 * height of all; UINT64_MAX where that overflows, and then not every offset is set. O(n log n) where what is
 * free lies in few pieces, as it does in steps that keep everything and in chains; those it often places as
 * low as their lower bound. */
neap_status sweep_place(const struct packing *packing, uint64_t *offsets, uint64_t *height);

#endif
