/* What is placed: shapes in time and space. */
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
  uint64_t offset;      /* found */
};

/* Of the largest of its spans. */
static inline uint64_t shape_size(const struct shape *shape, const struct span *spans) {
  uint64_t size = 0;
  for (int32_t k = shape->first; k < shape->first + shape->count; k++)
    if (spans[k].size > size) size = spans[k].size;
  return size;
}

#endif
