/* Neap's search over schedules of one step: a descent under a rising price of memory, then ruin and recreate,
 * on a timeline (docs/design/planning.md). */
#ifndef NEAP_SEARCH_SEARCH_H
#define NEAP_SEARCH_SEARCH_H

#include "search/timeline.h"

struct change {
  int32_t run, node, successor; /* successor: of a run that was removed */
  bool inserted;
};

enum { CHANGE_LIMIT = 8192 };

/* One schedule under search, with its own stream of random numbers. */
struct search {
  struct timeline timeline;
  uint32_t random;
  /* Runs move to places that are as good even where what lives then leaves gaps in a layout. That finds a
   * little less memory, and gets a large step on, which is searched less. Set for large steps; the caller
   * may. */
  bool drifts;
  /* Every other time, what is forgotten lies around a node in the graph and not in the order of the step.
   * The caller may set it. */
  bool radial;
  int64_t patience;                    /* work of the timeline at which the current value is given up */
  double price;                        /* of a byte above the limit at one position */
  double floor, ceiling;               /* of prices that have been worth trying */
  struct change changes[CHANGE_LIMIT]; /* since the last point of return */
  int32_t change_count;
  int32_t in_vain;      /* attempts to rebuild since the last that gained something */
  VECTOR(int32_t) runs; /* of one sweep */
};

/* Starts from a valid schedule, which may be over the limit (bytes of values). `*out` is for search_free. */
neap_status search_create(const neap_step *step, uint64_t limit, const struct schedule *start, uint32_t seed,
                          struct search **out);
void search_free(struct search *search); /* NULL: nothing */

/* Raises the price of memory until the limit is kept or the work (of the timeline) is spent: a value is made
 * again before a read, or a run spared, or moved, wherever that lowers cost + price * excess. */
neap_status search_descend(struct search *search, int64_t work);

/* From a schedule that is little over the limit, which it keeps nearly as it is: what is over it is bought
 * off here and there, the cheapest first, for as much work; what is left then, for as much again, everywhere
 * at prices from which repeats are not undone. */
neap_status search_mend(struct search *search, int64_t work);

/* Ruin and recreate until the work or the time is spent or `in_vain` says that it is no use (`deadline`: of
 * the monotonic clock, seconds; 0: none): forgets how some stretches of the step are recomputed and descends
 * anew there; keeps what is no worse, by excess first, then by cost. `feasible_is_enough`: ends where nothing
 * is over the limit. */
neap_status search_rebuild(struct search *search, int64_t work, double deadline, bool feasible_is_enough);

/* Nothing is recomputed and nothing is over the limit. */
bool search_is_optimal(const struct search *search);

/* Is the first better: less over the limit, or equal in that and cheaper? */
bool search_better(const struct search *search, const struct search *other);

/* Moves runs to where less lives for less long, with the same cost and nothing more over the limit. That is
 * no aim of its own, but leaves more room to move, and what lives together lies together in a layout. */
neap_status search_tidy(struct search *search);

/* The schedule as it stands, tidied. */
neap_status search_result(struct search *search, struct schedule *out);

#endif
