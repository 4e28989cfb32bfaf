/* Packs sequences of different lengths into rows of one length. */
#ifndef NEAP_DATA_PACKING_H
#define NEAP_DATA_PACKING_H

#include "base/region.h"
#include "base/status.h"

/* The rows, and the sequences of each in their order. */
struct packing {
  int64_t rows;
  int64_t *first;   /* [rows + 1]: where a row begins in `members` */
  int32_t *members; /* [count] */
};

/* Packs `count` sequences (below 2^31) of 1 to `length` places into rows of `length`: the longest first, each
 * into the fullest row that has room (best fit decreasing; Johnson 1974: at most 11/9 of the fewest rows,
 * plus one). The result is in the region and depends on the lengths alone. */
neap_status packing_make(struct region *region, int64_t count, const int32_t *lengths, int64_t length,
                         struct packing *packing);

#endif
