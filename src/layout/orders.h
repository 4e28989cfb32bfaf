/* Placement in given orders. */
#ifndef NEAP_LAYOUT_ORDERS_H
#define NEAP_LAYOUT_ORDERS_H

#include <stdbool.h>

#include "base/status.h"
#include "layout/shape.h"

/* Places shape by shape, each as low as possible next to those placed before it, in several orders until one
 * stays within the goal. `fixed`: by shape, whether it has its offset already; the others are placed around
 * these; NULL: none has. `offsets` (one for each shape) and the height are the best found. If every order
 * exceeds 2^64 - 2 bytes, the height is UINT64_MAX and the offsets are unchanged. */
neap_status place_by_orders(const struct packing *packing, const bool *fixed, uint64_t goal,
                            uint64_t *offsets, uint64_t *height);

#endif
