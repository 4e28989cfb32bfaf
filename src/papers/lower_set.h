/* Lower sets of a forward graph: sets of vertices that contain every predecessor of their members. Kusumoto,
 * Inoue, Watanabe, Akiba, Koyama 2019, A Graph Theoretic Framework of Recomputation Algorithms for
 * Memory-Efficient Backpropagation. */
#ifndef NEAP_PAPERS_LOWER_SET_H
#define NEAP_PAPERS_LOWER_SET_H

#include "papers/forward_graph.h"

/* A family of lower sets L_0 = {}, ..., L_count-1 = V, in which a subset comes before its superset: by rising
 * bytes, then by rising number of vertices. */
struct lower_sets {
  const struct forward_graph *graph;
  int32_t count, words;
  const uint64_t *members; /* bits by vertex: those of set i are members[i * words ..] */
  const int32_t *top;      /* if L consists of a vertex and all its ancestors, that vertex; else -1 */
  uint64_t *bytes;         /* M(L) */
  double *cost;            /* T(L) */
  uint64_t *beyond;        /* M(d+(L) \ L) + M(d-(d+(L)) \ L): what the backward pass holds past L */
  int32_t *boundary_start, *boundary; /* vertices of L with a successor outside, and the pinned ones */
};

/* Finds all lower sets; all memory is in `region`. NEAP_OVER_BUDGET: there are more than `most`. */
neap_status lower_sets_all(const struct forward_graph *graph, int32_t most, struct region *region,
                           struct lower_sets *out);

/* Finds {}, V and L^v for the vertices v, at most `most` of them. In a graph with more, neighbouring vertices
 * share one: the one beyond which the fewest bytes are read. */
neap_status lower_sets_of_ancestors(const struct forward_graph *graph, int32_t most, struct region *region,
                                    struct lower_sets *out);

static inline bool lower_set_has(const struct lower_sets *sets, int32_t set, int32_t vertex) {
  return sets->members[(size_t)set * (size_t)sets->words + (size_t)(vertex / 64)] >> (vertex % 64) & 1;
}

/* Returns true if set a, which comes before set b, is a subset of it. */
static inline bool lower_set_within(const struct lower_sets *sets, int32_t a, int32_t b) {
  if (b == sets->count - 1) return true;
  if (sets->top[a] >= 0) return lower_set_has(sets, b, sets->top[a]);
  const uint64_t *x = sets->members + (size_t)a * (size_t)sets->words,
                 *y = sets->members + (size_t)b * (size_t)sets->words;
  for (int32_t w = 0; w < sets->words; w++)
    if (x[w] & ~y[w]) return false;
  return true;
}

/* One segment of a canonical strategy, V_i = L' \ L: what choosing it adds. */
struct lower_set_segment {
  uint64_t kept;   /* bytes of d(L') \ L, which stay in addition to those that stay already */
  uint64_t needed; /* bytes in addition to those that stay already: 2 M(V_i) + beyond(L') (section 3, equation
                      2) */
  double overhead; /* T(V_i \ d(L')), made again */
};

static inline struct lower_set_segment lower_set_segment(const struct lower_sets *sets, int32_t from,
                                                         int32_t to) {
  struct lower_set_segment segment = {.needed = 2 * (sets->bytes[to] - sets->bytes[from]) + sets->beyond[to],
                                      .overhead = sets->cost[to] - sets->cost[from]};
  for (int32_t k = sets->boundary_start[to]; k < sets->boundary_start[to + 1]; k++) {
    const int32_t v = sets->boundary[k];
    if (lower_set_has(sets, from, v)) continue;
    segment.kept += sets->graph->bytes[v];
    segment.overhead -= sets->graph->cost[v];
  }
  return segment;
}

/* Makes the schedule of the canonical strategy {} = L_0 < L_1 < ... < L_k = V: `chain` holds the indices of
 * L_1 .. L_k. The union of the boundaries stays; so does the last segment, with which the backward pass
 * begins. `out` is replaced. */
neap_status lower_sets_schedule(const struct lower_sets *sets, const int32_t *chain, int32_t length,
                                struct schedule *out);

#endif
