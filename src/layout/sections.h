/* Time for the exact search: sections in which the same shapes live. */
#ifndef NEAP_LAYOUT_SECTIONS_H
#define NEAP_LAYOUT_SECTIONS_H

#include "base/region.h"
#include "base/status.h"
#include "layout/shape.h"

/* `size` bytes in the sections [lower, upper). */
struct piece {
  int32_t lower, upper;
  uint64_t size;
};

/* A shape with bytes: pieces that follow each other in time without a gap. */
struct item {
  int32_t shape;
  int32_t first, count; /* pieces */
  int32_t lower, upper; /* sections of all of them */
  uint64_t least, most; /* the smallest piece above 0, and the largest */
  int32_t twin;         /* the last item before it with the same sections and sizes; -1: none */
  double length;        /* in positions */
};

struct sections {
  int32_t count; /* sections: shapes that live at one position all live in one of them */
  int32_t shape_count, item_count;
  struct item *items;
  struct piece *pieces;
  int64_t covered; /* sections of each item, added up */
};

/* Cuts time just before a beginning that follows an end: the shapes that live at any other position are among
 * those of one of these sections. If a shape has no bytes between two spans it keeps its sections, with a
 * size of 0. The arrays belong to the region. */
neap_status sections_make(const struct packing *packing, struct region *region, struct sections *out);

/* Gives the sum of sizes in each section, which must not overflow. The array belongs to the region. */
neap_status sections_load(const struct sections *sections, struct region *region, uint64_t **load);

#endif
