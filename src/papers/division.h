/* The division of a forward graph into closed sets. Feng and Huang 2018, Optimal Gradient Checkpoint Search
 * for Arbitrary Computation Graphs. A closed set [s, t] is all that is between two vertices if no edge leads
 * in or out except at its ends. It is divided
 * - linearly, at the vertices that every path from s to t passes, into the closed sets between them;
 * - into branches, if removing s and t leaves it in several parts;
 * - else at the ends of the largest closed sets in it that share no edge. */
#ifndef NEAP_PAPERS_DIVISION_H
#define NEAP_PAPERS_DIVISION_H

#include "papers/forward_graph.h"

enum division_kind { DIVISION_LINEAR, DIVISION_BRANCHES, DIVISION_OTHER };

struct closed_set {
  int32_t source, target; /* its ends: vertices, or -1 and the number of vertices: before and after all */
  int32_t begin, end;     /* its inside: inside[begin .. end), rising vertices */
  bool direct;            /* the edge from source to target belongs to it */
  enum division_kind kind;
  int32_t cut_begin, cut_end;     /* cuts[..): inner vertices at which it is divided, rising */
  int32_t child_begin, child_end; /* children[..): sets; linear: one for each gap between cuts, ends included,
                                     -1 if nothing is inside */
  uint64_t bytes;                 /* of the values inside */
};

/* The sets; sets[0] is all of the graph, and a child comes after its parent. */
struct division {
  const struct forward_graph *graph;
  VECTOR(struct closed_set) sets;
  VECTOR(int32_t) cuts;
  VECTOR(int32_t) children;
  int32_t *inside;
  uint64_t *bytes; /* by vertex; 0 for a pinned one, which stays whatever is chosen */
};

/* Divides a graph. Arrays of fixed size are in `region`; call division_free also after a failure. Sets that
 * are neither linear nor branches and have more than 200 vertices inside are divided at all of them. */
neap_status division_create(const struct forward_graph *graph, struct region *region, struct division *out);
void division_free(struct division *division);

#endif
