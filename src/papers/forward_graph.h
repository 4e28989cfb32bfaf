/* The forward graph of a step, for planners that choose the values that stay for the backward pass. Its
 * vertices are the step's forward nodes, without inputs and parameters. The rest of the step (backward nodes,
 * updates) follows from the values that stay. */
#ifndef NEAP_PAPERS_FORWARD_GRAPH_H
#define NEAP_PAPERS_FORWARD_GRAPH_H

#include "base/region.h"
#include "step/schedule.h"

struct forward_graph {
  const neap_step *step;
  int32_t count;   /* vertices */
  int32_t *node;   /* vertex -> node of the step, rising: the vertices' order is valid */
  int32_t *vertex; /* node of the step -> vertex; -1: not of the forward graph */
  bool *late; /* by node of the step: it depends on no value and only the backward pass reads it, so it is no
                 vertex */
  int32_t *before_start, *before; /* predecessors of v: before[before_start[v] .. before_start[v + 1]) */
  int32_t *after_start, *after;   /* successors, likewise; each once */
  uint64_t *bytes;                /* M_v: of its outputs */
  double *cost;                   /* T_v */
  bool *pinned;                   /* never made again: it must not repeat, or the step ends with its value */
};

/* Makes the graph; all memory is in `region`. A forward node that reads a value of the backward pass is no
 * vertex. */
neap_status forward_graph_create(const neap_step *step, struct region *region, struct forward_graph *graph);

/* Makes the schedule for the values that stay. The forward pass runs segment by segment. In the backward
 * pass, from the last segment to the first, a missing value is made again when it is first needed and exists
 * from then on (liveness ends it at its last reader). A late node runs when it is first needed, each update
 * as soon as it may.
 *
 * stays [count]: the vertex is not dropped at the end of the forward pass; always true for pinned ones.
 *
 * segment [count]: from 0, not falling along edges; NULL: one segment, the step's own order.
 *
 * `out` is replaced. O(nodes log nodes + reads). */
neap_status forward_graph_schedule(const struct forward_graph *graph, const int32_t *segment,
                                   const bool *stays, struct schedule *out);

/* Returns true for an update without outputs: it can get its best place once the rest is known. */
static inline bool is_plain_update(const struct step_node *node) {
  return node->update_count > 0 && node->output_count == 0;
}

/* Adds the step's updates to a schedule that has every other node, each at the first valid position: after
 * its inputs are made and after the last run of every other reader of the tensors it changes. Only adds plain
 * updates; others must be in the schedule. */
neap_status schedule_add_updates(const neap_step *step, struct schedule *schedule);

#endif
