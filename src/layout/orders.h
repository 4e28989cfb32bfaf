/* Placement in a given order, and climbing from order to order. */
#ifndef NEAP_LAYOUT_ORDERS_H
#define NEAP_LAYOUT_ORDERS_H

#include <stdbool.h>

#include "base/status.h"
#include "layout/shape.h"

/* Places shape by shape, each as low as it can lie beside those placed before it: with `climbed` 0 in several
 * orders; else in orders in which shapes that stick out above the goal move before others, until about that
 * many shapes are placed from each of three starts. Stops at the goal. `offsets` (one per shape) and the
 * height are the best found; where every order gets above 2^64 - 2 bytes, the height is UINT64_MAX and the
 * offsets are not set. */
neap_status place_by_orders(const struct shape *shapes, int32_t count, const struct span *spans,
                            uint64_t goal, int64_t climbed, uint64_t *offsets, uint64_t *height);

/* The same for what is not `fixed`, around what is, whose offsets are given (and are right: no overlaps). */
neap_status fill_by_orders(const struct shape *shapes, int32_t count, const struct span *spans,
                           const bool *fixed, uint64_t goal, uint64_t *offsets, uint64_t *height);

#endif
