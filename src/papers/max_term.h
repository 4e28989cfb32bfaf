/* What stays of a divided forward graph for a max term: Feng and Huang 2018. A closed set of at most this
 * many bytes inside is a segment: nothing of it stays. A larger one is divided: into its branches; or at all
 * of its cuts; or, when it is linear, at the cuts on the shortest path through its accessibility graph, where
 * an edge leads from cut to cut when at most this many bytes lie between, and a vertex weighs its bytes. */
#ifndef NEAP_PAPERS_MAX_TERM_H
#define NEAP_PAPERS_MAX_TERM_H

#include "papers/division.h"

struct max_term_search {
  const struct division *division;
  bool *stays;    /* by vertex: the result */
  uint64_t *kept; /* by set: bytes that stay inside it */
  bool *divided;  /* by set */
  /* Along the cuts of one linear set, its ends included: */
  uint64_t *bytes, *prefix; /* of what stays up to here; of what lies before it and after the source */
  int32_t *from, *queue;
};

/* Everything lies in `region`. */
neap_status max_term_create(const struct division *division, struct region *region,
                            struct max_term_search *out);

/* *kept: bytes of what stays; *largest: of the segments, at most `term`. O(vertices). */
void max_term_solve(struct max_term_search *search, uint64_t term, uint64_t *kept, uint64_t *largest);

/* The max term with the least sum of what stays and the largest segment. The published algorithm tries every
 * sum of a run; here intervals of max terms that cannot win are passed over, which finds the same sum, in at
 * most 600 solutions (the best of those, where they do not suffice). */
neap_status max_term_find_best(struct max_term_search *search, uint64_t *best_term);

#endif
