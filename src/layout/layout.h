/* The layout: offsets from lifetimes. */
#ifndef NEAP_LAYOUT_LAYOUT_H
#define NEAP_LAYOUT_LAYOUT_H

#include <stdbool.h>

#include "base/status.h"
#include "step/instance.h"

/* The alignment of offsets, in bytes, if all sizes are multiples of it; otherwise a smaller power of two that
 * divides them, down to 1. */
enum { LAYOUT_ALIGNMENT = 64 };

struct layout {
  uint64_t *offsets;    /* one per instance, aligned; free() */
  uint64_t arena_bytes; /* the largest offset + bytes */
  uint64_t live_bytes;  /* the largest live bytes at any position: no arena can be smaller */
};

/* The effort: hundredths of a second, tenths of one, or a second or two. */
enum layout_effort { LAYOUT_USUAL, LAYOUT_LARGE, LAYOUT_LARGEST };

/* The conditions on which a layout's search stops, and its effort. */
struct layout_limits {
  uint64_t enough; /* bytes of arena that are enough; if below the live bytes: the least */
  bool closest;    /* if enough is not reached, comes as near to it as it can in little time */
  enum layout_effort effort;
};

/* Finds offsets for the instances of a simulated schedule. An instance that takes over another's bytes in
 * place gets the same offset. If no place fits both, the output gets bytes of its own: at position `at` the
 * two may overlap only by having equal offsets. Stops as soon as the arena is small enough or equals
 * live_bytes. Searches at most a fixed number of moves, so it is deterministic. */
neap_status layout_instances(const struct instance *instances, int32_t count,
                             const struct layout_limits *limits, struct layout *out);

#endif
