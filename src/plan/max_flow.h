/* Maximum flow by shortest augmenting paths in phases (Dinic 1970). */
#ifndef NEAP_PLAN_MAX_FLOW_H
#define NEAP_PLAN_MAX_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vector.h"

enum { FLOW_SOURCE, FLOW_SINK, FLOW_FIRST }; /* nodes; others count from FLOW_FIRST on */
#define FLOW_UNBOUNDED (INT64_MAX / 4)       /* capacity of an edge that must not be cut */

struct flow_edge {
  int32_t to, next; /* next: edge from the same node, -1: none */
  int64_t left;     /* capacity that is left */
};

struct flow {
  VECTOR(struct flow_edge) edges; /* in pairs: an edge and its reverse */
  VECTOR(int32_t) first;          /* by node: an edge from it, -1: none */
  VECTOR(int32_t) level, cursor, path;
};

/* Empties the network and gives it this number of nodes. The struct starts zeroed; call flow_free at the end.
 * All of these may return NEAP_OUT_OF_MEMORY. */
neap_status flow_reset(struct flow *flow, int32_t nodes);
neap_status flow_connect(struct flow *flow, int32_t from, int32_t to, int64_t capacity);

/* Returns the maximum flow from the source to the sink, or less if a stop is requested (base/stop.h). All
 * bounded capacities from the source must add up to less than INT64_MAX / 8, and no path may be unbounded. */
int64_t flow_maximise(struct flow *flow);

/* Returns true if, after flow_maximise, the node is on the source's side of the least cut nearest to the
 * source. */
bool flow_reaches(const struct flow *flow, int32_t node);

void flow_free(struct flow *flow);

#endif
