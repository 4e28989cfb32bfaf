/* The placement of shapes in time and space, below both public faces of the layout. */
#ifndef NEAP_LAYOUT_SOLVER_H
#define NEAP_LAYOUT_SOLVER_H

#include "base/status.h"
#include "layout/shape.h"

struct placement_result {
  uint64_t height;
  uint64_t lower_bound; /* the largest sum of sizes at one position */
  uint64_t least;       /* no placement is lower: the bound, or more where the search proved it */
};

/* When to stop and how much to do: the result is the same on every machine. */
struct placement_limits {
  uint64_t enough;  /* a height that will do; below the lower bound: that one */
  int64_t searched; /* work of the search (exact.h) for what is enough; 0: none */
  int64_t tiered;   /* of that among the large shapes (tiers.h) */
  int64_t climbed;  /* shapes that the climb may place in each of its orders; 0: none */
  int64_t closing;  /* work of the searches that halve the gap between what is enough and what is found */
};

/* Sets every offset (a sum of sizes, so a multiple of what divides all of them) so that no spans overlap, as
 * low as it can: several orders, the search for what is enough, the large ones apart from the small ones, the
 * climb, then the search between what was not found and what was. NEAP_TOO_LARGE: sizes at one position
 * overflow 64 bits, or every layout that was tried does. */
neap_status place_shapes(struct shape *shapes, int32_t count, const struct span *spans,
                         const struct placement_limits *limits, struct placement_result *result);

#endif
