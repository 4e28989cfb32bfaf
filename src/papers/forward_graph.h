/* The forward graph of a step, as planners see it that choose which of its values stay for the backward pass:
 * its vertices are the step's forward nodes, without inputs and parameters. What is not of the forward graph
 * (backward nodes, updates) follows from what stays. */
#ifndef NEAP_PAPERS_FORWARD_GRAPH_H
#define NEAP_PAPERS_FORWARD_GRAPH_H

#include "base/region.h"
#include "step/schedule.h"

struct forward_graph {
  const neap_step *step;
  int32_t count;   /* vertices */
  int32_t *node;   /* vertex -> node of the step, rising: vertices stand in a valid order */
  int32_t *vertex; /* node of the step -> vertex; -1: not of the forward graph */
  bool *late; /* by node of the step: it depends on no value and only the backward pass reads it: no vertex */
  int32_t *before_start, *before; /* predecessors of v: before[before_start[v] .. before_start[v + 1]) */
  int32_t *after_start, *after;   /* successors, the same way; each once */
  uint64_t *bytes;                /* M_v: of its outputs */
  double *cost;                   /* T_v */
  bool *pinned;                   /* never made again: it must not repeat, or the step ends with its value */
};

/* Everything lies in `region`. A forward node that reads what the backward pass makes is no vertex. */
neap_status forward_graph_create(const neap_step *step, struct region *region, struct forward_graph *graph);

/* The schedule of what stays. The forward pass runs segment by segment; in the backward pass, from the last
 * segment to the first, what is missing is made again when it is first asked for and is there from then on
 * (liveness ends it at its last reader); a late node runs when it is first asked for, each update as soon as
 * it may.
 * stays [count]: the vertex is not dropped at the end of the forward pass; holds for pinned ones anyway.
 * segment [count]: from 0, not falling along edges; NULL: one segment, the step's own order.
 * `out` is replaced. O(nodes log nodes + reads). */
neap_status forward_graph_schedule(const struct forward_graph *graph, const int32_t *segment,
                                   const bool *stays, struct schedule *out);

/* An update that makes nothing: it can be put where it is best once the rest is known. */
static inline bool is_plain_update(const struct step_node *node) {
  return node->update_count > 0 && node->output_count == 0;
}

/* Adds the step's updates to a schedule that has every other node, each at the first position that is valid:
 * after its inputs are made and after the last run of every other reader of what it changes. Only plain
 * updates; others have to be there. */
neap_status schedule_add_updates(const neap_step *step, struct schedule *schedule);

#endif
