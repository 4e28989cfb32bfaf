/* A lower bound on the peak of plans. It holds for every valid schedule, with any number of repeats, in any
 * order (docs/formats.md). */
#ifndef NEAP_PLAN_MEMORY_BOUND_H
#define NEAP_PLAN_MEMORY_BOUND_H

#include "step/step.h"

/* Gives a lower bound on the peak of any schedule, resident bytes included.
 *
 * Let S be values that are live together between two positions of a schedule. One of their instances was made
 * last, by a node u. At that position all of S that u did not make (R) is already live and is not taken over,
 * together with u's inputs, outputs and workspace. Right before that position R and u's inputs are live
 * together: the same again for a set that was live earlier. So a schedule that runs a node gives a walk from
 * the node's inputs back to the empty set, and its peak is at least the most bytes on the walk. The bound is
 * the least of that over all walks, best first, for each node and for the outputs at the end. If a search is
 * stopped, the least that is still open is a bound as well. Values below a thousandth of the largest node are
 * not followed. A step has a schedule with exactly this peak if it has no updates, all nodes may be repeated,
 * no value is that small and no search is stopped.
 *
 * Deterministic, and limited: hundredths of a second for some hundred nodes, less than a second for some
 * thousand. May return NEAP_OUT_OF_MEMORY. */
neap_status plan_memory_bound(const neap_step *step, uint64_t *bytes);

#endif
