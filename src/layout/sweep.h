/* One pass in the order of time: finds the live bytes, and the offsets of an allocator that always takes the
 * lowest free place. */
#ifndef NEAP_LAYOUT_SWEEP_H
#define NEAP_LAYOUT_SWEEP_H

#include "base/status.h"
#include "layout/shape.h"

/* Finds the largest sum of sizes at one position: no height is lower. NEAP_TOO_LARGE: it does not fit 64
 * bits. */
neap_status sweep_live(const struct packing *packing, uint64_t *live);

/* Gives one offset for each shape, as if it had its largest size from its first position to its last, and the
 * height of all. The height is UINT64_MAX if it overflows, and then some offsets are not set. O(n log n) if
 * the free bytes are in few pieces, as in steps that keep everything and in chains, which it often places as
 * low as their lower bound. */
neap_status sweep_place(const struct packing *packing, uint64_t *offsets, uint64_t *height);

#endif
