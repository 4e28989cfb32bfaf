/* The exact search: is there a placement within a capacity? */
#ifndef NEAP_LAYOUT_EXACT_H
#define NEAP_LAYOUT_EXACT_H

#include "layout/sections.h"

enum search_outcome {
  SEARCH_FOUND,
  SEARCH_NONE,   /* all is searched: no placement fits */
  SEARCH_STOPPED /* the work is used up, or memory of 128 MiB in each try */
};

/* Depth-first from the bottom up, with ideas of Moffitt 2023 ("MiniMalloc": sections, floors plus load,
 * dominance, independent windows, several orders with doubling limits, in turn or two at once) on another
 * branching: every node takes one section of a niche (neighbouring sections of one lowest level with higher
 * ones on both sides) and asks what lies on it there: each item that fits, or nothing. So the question with
 * the fewest answers comes first, and an answer whose refutation does not touch it ends its siblings too.
 *
 * `work`: how many section and item visits it may use up; falls by what it used, so the outcome is the same
 * on every machine. `offsets` (one per shape; of those without bytes 0) are set where the outcome is
 * SEARCH_FOUND. Sizes whose sum in any section overflows must have been refused before. */
neap_status search_placement(const struct sections *sections, uint64_t capacity, int64_t *work,
                             uint64_t *offsets, enum search_outcome *outcome);

#endif
