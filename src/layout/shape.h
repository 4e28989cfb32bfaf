/* The shapes to place, in time and space. */
#ifndef NEAP_LAYOUT_SHAPE_H
#define NEAP_LAYOUT_SHAPE_H

#include <stdint.h>

/* A rectangle: `size` bytes at the positions [lower, upper). */
struct span {
  int64_t lower, upper;
  uint64_t size;
};

/* One or more spans that begin at the same offset, one after the other in time. */
struct shape {
  int32_t first, count; /* spans */
};

/* The shapes to place. */
struct packing {
  const struct shape *shapes; /* their spans follow each other in the list */
  int32_t count;
  const struct span *spans;
  const int32_t *heir_of; /* by shape, the one whose bytes it may take over where its last span overlaps this
                             one's first: ejection lets the two overlap by having equal offsets; -1: none;
                             NULL: none at all */
};

/* Returns the size of the largest of its spans. */
static inline uint64_t shape_size(const struct shape *shape, const struct span *spans) {
  uint64_t size = 0;
  for (int32_t k = shape->first; k < shape->first + shape->count; k++)
    if (spans[k].size > size) size = spans[k].size;
  return size;
}

/* Returns the number of spans of all shapes. */
static inline int32_t span_count(const struct packing *packing) {
  if (packing->count == 0) return 0;
  const struct shape *last = &packing->shapes[packing->count - 1];
  return last->first + last->count;
}

#endif
