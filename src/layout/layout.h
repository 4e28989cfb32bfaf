/* Lifetimes to offsets. */
#ifndef NEAP_LAYOUT_LAYOUT_H
#define NEAP_LAYOUT_LAYOUT_H

#include <stdbool.h>

#include "base/status.h"
#include "step/instance.h"

/* Bytes. Where all sizes are multiples of it the offsets are, too; else of what divides all sizes, down to 1.
 */
enum { LAYOUT_ALIGNMENT = 64 };

struct layout {
  uint64_t *offsets;    /* one per instance, aligned; free() */
  uint64_t arena_bytes; /* the largest offset + bytes */
  uint64_t live_bytes;  /* the largest live bytes at any position: no arena can be smaller */
};

/* How much is done: hundredths of a second, tenths of one, or a second or two. */
enum layout_effort { LAYOUT_USUAL, LAYOUT_LARGE, LAYOUT_LARGEST };

/* When to stop and how much to do. */
struct layout_limits {
  uint64_t enough; /* bytes of arena that will do; up to the live bytes: the least */
  bool closest;    /* where what is enough is not found, comes as near to it as it can in little time */
  enum layout_effort effort;
};

/* Offsets for the instances of a simulated schedule. An instance that takes over another's bytes in place
 * gets the same offset (or, where that is what fits, its own: at position `at` the two may overlap only by
 * having equal offsets). Stops as soon as the arena is small enough or equals live_bytes; searches no further
 * than a fixed number of moves, so it is deterministic. */
neap_status layout_instances(const struct instance *instances, int32_t count,
                             const struct layout_limits *limits, struct layout *out);

#endif
