/* Neap's search over schedules of one step: a descent under a rising price of memory, then ruin and recreate,
 * on a timeline (docs/design/planning.md). */
#ifndef NEAP_SEARCH_SEARCH_H
#define NEAP_SEARCH_SEARCH_H

#include "search/timeline.h"

struct change {
  int32_t run, node, successor; /* successor: of a removed run */
  bool inserted;
};

enum { CHANGE_LIMIT = 8192 };

/* One schedule under search, with its own stream of random numbers. */
struct search {
  struct timeline timeline;
  uint32_t random;
  /* Runs move to places that are equally good even if the live values then leave gaps in a layout. That finds
   * a little less memory, and helps a large step, which is searched less. Set for large steps; the caller may
   * set it. */
  bool drifts;
  /* Every other time, the nodes to forget are around a node in the graph and not in the order of the step.
   * The caller may set it. */
  bool radial;
  int64_t patience;      /* work of the timeline at which the search gives up on the current value */
  double price;          /* of a byte above the limit at one position */
  double floor, ceiling; /* of prices that paid */
  struct change changes[CHANGE_LIMIT]; /* since the last point of return */
  int32_t change_count;
  int32_t in_vain;      /* attempts to rebuild since the last that gained */
  VECTOR(int32_t) runs; /* of one sweep */
};

/* Starts from a valid schedule, which may be over the limit (bytes of values). Pass `*out` to search_free. */
neap_status search_create(const neap_step *step, uint64_t limit, const struct schedule *start, uint32_t seed,
                          struct search **out);
void search_free(struct search *search); /* NULL: nothing */

/* Raises the price of memory until the limit is kept or the work (of the timeline) is spent. A value is made
 * again before a read, or a run is spared or moved, whenever that lowers cost + price * excess. */
neap_status search_descend(struct search *search, int64_t work);

/* Brings a schedule that is little over the limit below it, nearly unchanged. First buys off single
 * positions, the cheapest first, for this much work. Then, for as much again, searches the rest everywhere,
 * at prices from which repeats are not undone. */
neap_status search_mend(struct search *search, int64_t work);

/* Ruins and recreates until the work or the time is spent or `in_vain` says that more would not help
 * (`deadline`: of the monotonic clock, seconds; 0: none). Forgets how some stretches of the step are
 * recomputed and descends anew there; keeps a result that is no worse, by excess first, then by cost.
 * `feasible_is_enough`: ends when nothing is over the limit. */
neap_status search_rebuild(struct search *search, int64_t work, double deadline, bool feasible_is_enough);

/* Returns true if nothing is recomputed and nothing is over the limit. */
bool search_is_optimal(const struct search *search);

/* Returns true if the first is better: less over the limit, or equal in that and cheaper. */
bool search_better(const struct search *search, const struct search *other);

/* Moves runs so that fewer bytes live for less time, at the same cost and with no more over the limit. That
 * leaves more room to move, and values that live together are placed together in a layout. */
neap_status search_tidy(struct search *search);

/* Gives the current schedule, tidied. */
neap_status search_result(struct search *search, struct schedule *out);

#endif
