/* Placement in a given order. */
#ifndef NEAP_LAYOUT_ORDERS_H
#define NEAP_LAYOUT_ORDERS_H

#include <stdbool.h>

#include "base/status.h"
#include "layout/shape.h"

/* Places shape by shape, each as low as it can are next to those placed before it, in several orders until
 * one stays within the goal. `fixed`: by shape, whether it has its offset already, beside which the others
 * are placed; NULL: none has. `offsets` (one per shape) and the height are the best found; where every order
 * gets above 2^64 - 2 bytes, the height is UINT64_MAX and the offsets are as they were. */
neap_status place_by_orders(const struct packing *packing, const bool *fixed, uint64_t goal,
                            uint64_t *offsets, uint64_t *height);

#endif
