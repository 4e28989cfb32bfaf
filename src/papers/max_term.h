/* Chooses the values of a divided forward graph that stay for a max term: Feng and Huang 2018. A closed set
 * with at most this many bytes inside is a segment: nothing of it stays. A larger one is divided: into its
 * branches; or at all of its cuts; or, if it is linear, at the cuts on the shortest path through its
 * accessibility graph. There an edge leads from cut to cut if at most this many bytes are between them, and a
 * vertex weighs its bytes. */
#ifndef NEAP_PAPERS_MAX_TERM_H
#define NEAP_PAPERS_MAX_TERM_H

#include "papers/division.h"

struct max_term_search {
  const struct division *division;
  bool *stays;    /* by vertex: the result */
  uint64_t *kept; /* by set: bytes that stay inside it */
  bool *divided;  /* by set */
  /* Along the cuts of one linear set, its ends included: */
  uint64_t *bytes, *prefix; /* bytes that stay up to here; bytes before it and after the source */
  int32_t *from, *queue;
};

/* Allocates a search; all memory is in `region`. */
neap_status max_term_create(const struct division *division, struct region *region,
                            struct max_term_search *out);

/* Solves for a max term. *kept: bytes that stay; *largest: of the segments, at most `term`. O(vertices). */
void max_term_solve(struct max_term_search *search, uint64_t term, uint64_t *kept, uint64_t *largest);

/* Finds the max term with the least sum of the bytes that stay and the largest segment. The published
 * algorithm tries every sum of a run. This one skips intervals of max terms that cannot win, which finds the
 * same sum in at most 600 solutions (or the best of those, if they are not enough). */
neap_status max_term_find_best(struct max_term_search *search, uint64_t *best_term);

#endif
