/* Placement within a capacity, the large shapes before the small ones. */
#ifndef NEAP_LAYOUT_BULK_H
#define NEAP_LAYOUT_BULK_H

#include "layout/eject.h"

/* Mends a placement by ejection (eject.h), whose arguments these are: first among the large shapes alone,
 * whose neighbours are few; then the small ones go around those in several orders, and what of them sticks
 * out is ejected among all. `work` is for each of the two ejections. */
neap_status place_by_bulk(const struct packing *packing, uint64_t capacity, int64_t work, uint64_t *offsets,
                          bool *found);

#endif
