/* What no plan can do better than in bytes: it holds for every valid schedule, with any number of repeats, in
 * any order (docs/formats.md). */
#ifndef NEAP_PLAN_MEMORY_BOUND_H
#define NEAP_PLAN_MEMORY_BOUND_H

#include "step/step.h"

/* The least peak, resident bytes included, that a schedule could have, from below.
 *
 * Let S be values that are live together between two positions of a schedule. One of their instances was made
 * last, by a node u, at a position where all of S that u did not make (R) is live already and is not taken
 * over, beside u's inputs, outputs and workspace. Right before that position R and u's inputs are live
 * together: the same again for a set that was live earlier. So a schedule that runs a node gives a walk from
 * the node's inputs back to the empty set, and its peak is at least the most bytes on the walk. The bound is
 * the least of that over all walks, best first, for each node and for the outputs at the end; where a search
 * is stopped, the least that is still open is a bound as well. Values below a thousandth of the largest node
 * are not followed. A step without updates, where all nodes may be repeated, no value is that small and no
 * search is stopped, has a schedule with this very peak.
 *
 * Deterministic, and limited: hundredths of a second for some hundred nodes, below a second for some
 * thousands. NEAP_OUT_OF_MEMORY. */
neap_status plan_memory_bound(const neap_step *step, uint64_t *bytes);

#endif
