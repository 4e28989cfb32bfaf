/* Placement of shapes, all at once or in stages. A stage is some of the shapes, placed by one method within
 * one effort, around those that are already placed. */
#ifndef NEAP_LAYOUT_STAGES_H
#define NEAP_LAYOUT_STAGES_H

#include "base/status.h"
#include "layout/shape.h"

struct placement_result {
  uint64_t height;
  uint64_t lower_bound; /* the largest sum of sizes at one position */
  uint64_t least;       /* no placement is lower: the bound, or more if the search proved it */
};

/* The conditions on which a placement stops, and its effort: the result is the same on every machine. */
struct placement_limits {
  uint64_t enough;  /* a height that is enough; if below the lower bound: the bound */
  int64_t searched; /* work of the search (exact.h) for what is enough; 0: none */
  int64_t staged;   /* of the searches among the large shapes (LARGE_BY_SEARCH); 0: none */
  int64_t closing;  /* of the searches that halve the gap between this and the height that is found */
};

/* Sets every offset (a sum of sizes, so a multiple of any number that divides all of them) so that no spans
 * overlap, as low as it can: in the order of time, in several other orders, by the search for `enough`, with
 * the large shapes first, then by the search that closes the gap. NEAP_TOO_LARGE: sizes at one position
 * overflow 64 bits, or every layout that was tried does. */
neap_status place_shapes(const struct packing *packing, const struct placement_limits *limits,
                         uint64_t *offsets, struct placement_result *result);

/* The shapes that go first, and the method that places them. */
enum staging {
  /* The large ones, by the search. Steps have a few hundred large values, which decide how high an arena
   * gets. They have many times as many small ones, which fit almost anywhere but make the search for all
   * hopeless. `work` limits the search. */
  LARGE_BY_SEARCH,
  /* The large ones, whose neighbours are few, by ejection. `work` limits ejection. */
  LARGE_BY_EJECTION,
  /* Those that live where it is tightest. A plan that uses all of its budget is tight at a few positions of a
   * long step, far apart and tied to each other by values that are kept from one to the next; the rest of the
   * step has room. They are placed as by place_shapes, else by ejection. `work` limits ejection. */
  TIGHT_FIRST,
  STAGINGS
};

/* Places some shapes alone, then the others around them in several orders. Those whose size (TIGHT_FIRST: the
 * most live bytes at a position of theirs) is at least `threshold` go first. If the first stage fits but the
 * others do not, all are mended by ejection, except with LARGE_BY_SEARCH.
 *
 * `work` falls by the work used. `offsets` are the current places, without an overlap, UINT64_MAX for a shape
 * without one: ejection starts from them. They are replaced by the lowest placement that is found, whose
 * height may be above the capacity. `height` is UINT64_MAX if none was found; the offsets are then
 * unchanged. */
neap_status place_in_stages(const struct packing *packing, enum staging staging, uint64_t threshold,
                            uint64_t capacity, int64_t *work, uint64_t *offsets, uint64_t *height);

#endif
