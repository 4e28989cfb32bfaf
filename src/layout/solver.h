/* The placement of shapes in time and space, below both public faces of the layout. */
#ifndef NEAP_LAYOUT_SOLVER_H
#define NEAP_LAYOUT_SOLVER_H

#include "base/status.h"

/* A rectangle: `size` bytes at the positions [lower, upper). */
struct span {
  int64_t lower, upper;
  uint64_t size;
};

/* One or more spans that begin at the same offset, one after the other in time. */
struct shape {
  int32_t first, count; /* spans */
  uint64_t offset;      /* found */
};

struct placement_result {
  uint64_t height, lower_bound;
};

/* Sets every offset (a multiple of `alignment`, when all sizes are) so that no spans overlap, as low as it
 * can: several orders first, then shapes that stick out are placed earlier, for a number of rounds that the
 * instance's size alone sets. Stops at `enough` or at the lower bound. */
neap_status place_shapes(struct shape *shapes, int32_t count, const struct span *spans, uint64_t enough,
                         struct placement_result *result);

#endif
