/* Some of a list of shapes, to be placed without the others. */
#ifndef NEAP_LAYOUT_SUBSET_H
#define NEAP_LAYOUT_SUBSET_H

#include <stdbool.h>

#include "base/region.h"
#include "base/status.h"
#include "layout/shape.h"

struct subset {
  struct shape *shapes; /* copies, with their spans one after the other */
  struct span *spans;
  int32_t *shape_of; /* by its own shape: the one in the list */
  int32_t count;
};

/* Room for any of `count` shapes with their spans, in the region. */
neap_status subset_create(const struct shape *shapes, int32_t count, struct region *region,
                          struct subset *out);

/* Those that `chosen` (by shape of the list that it was created for) has; what it held before is gone. */
void subset_choose(struct subset *subset, const struct shape *shapes, int32_t count, const struct span *spans,
                   const bool *chosen);

#endif
