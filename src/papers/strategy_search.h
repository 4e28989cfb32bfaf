/* The dynamic programme over canonical strategies: Kusumoto et al. 2019, sections 4.1 to 4.4. opt[L][t] is
 * the least number of bytes that stay after a strategy that has reached the lower set L with overhead t. A
 * segment is admissible if the bytes that stay and the segment's need fit in the programme's own budget. */
#ifndef NEAP_PAPERS_STRATEGY_SEARCH_H
#define NEAP_PAPERS_STRATEGY_SEARCH_H

#include "papers/lower_set.h"

/* A point of the Pareto front of a lower set. */
struct strategy_point {
  double overhead; /* time of recomputations */
  uint64_t kept;   /* bytes of the union of the boundaries */
  int32_t set;     /* its own */
  int32_t from;    /* the point before it; -1: it is {} */
};

struct strategy_search {
  const struct lower_sets *sets;
  int32_t buckets; /* overheads in the same bucket count as equal: the one that keeps less is stored */
  double width;    /* of a bucket */
  bool most;       /* memory-centric */
  int32_t *first;  /* set -> its first point; has one more */
  struct strategy_point *in; /* scratch: by bucket, the best so far of the current set */
  int32_t in_low, in_high;   /* the buckets that it uses */
  VECTOR(struct strategy_point) points;
  VECTOR(int32_t) chain; /* a strategy: indices of L_1 .. L_k */
};

/* Allocates a search. Fixed arrays are in `region`; call strategy_search_free also after a failure. With at
 * least as many buckets as T(V) in integer costs, the programme is exact. */
neap_status strategy_search_create(const struct lower_sets *sets, int32_t buckets, struct region *region,
                                   struct strategy_search *out);
void strategy_search_free(struct strategy_search *search);

/* Returns the budget that every strategy of one segment fits in. */
uint64_t strategy_search_everything(const struct strategy_search *search);

/* Finds the least budget that some strategy fits in, or at most one part in 500 more. */
neap_status strategy_search_least(struct strategy_search *search, uint64_t *least);

/* Runs the programme. The front of V is points[*low .. *high), by rising bytes; it is empty if no strategy
 * fits. The last point is the paper's choice: the least overhead (time-centric) or, for `most`, the largest
 * (memory-centric), which leaves liveness the most room. The first keeps the least. */
neap_status strategy_search_run(struct strategy_search *search, uint64_t budget, bool most, int32_t *low,
                                int32_t *high);

/* Writes the strategy that ends in a point of V's front to `chain`. */
neap_status strategy_search_trace(struct strategy_search *search, int32_t point);

#endif
