/* The exact search for a placement within a capacity. */
#ifndef NEAP_LAYOUT_EXACT_H
#define NEAP_LAYOUT_EXACT_H

#include "layout/sections.h"

enum search_outcome {
  SEARCH_FOUND,
  SEARCH_NONE,   /* the search is complete: no placement fits */
  SEARCH_STOPPED /* the work is used up, or 128 MiB of memory in one of the tries */
};

/* Searches depth first from the bottom up, with ideas of Moffitt 2023 ("MiniMalloc": sections, floors plus
 * load, dominance, independent windows, several orders with doubling limits, in turn or two at once) and
 * another branching. Every node takes one section of a niche (neighbouring sections of one lowest level with
 * higher ones on both sides) and asks which item has its bottom there: each item that fits, or none. So the
 * question with the fewest answers comes first, and an answer whose refutation does not touch it ends its
 * siblings too.
 *
 * `work`: the section and item visits that it may use; falls by those used, so the outcome is the same on
 * every machine. `offsets` (one for each shape; 0 for those without bytes) are set if the outcome is
 * SEARCH_FOUND. The caller must have refused sizes whose sum in any section overflows. */
neap_status search_placement(const struct sections *sections, uint64_t capacity, int64_t *work,
                             uint64_t *offsets, enum search_outcome *outcome);

#endif
