/* Exhaustive search of small steps: a game of pebbles played backwards. */
#ifndef NEAP_SEARCH_PEBBLING_H
#define NEAP_SEARCH_PEBBLING_H

#include "step/schedule.h"

/* Looks for a schedule whose live values never need more than `limit` bytes, at any cost.
 *
 * A state is what the rest of a schedule needs from all that comes before it: the values that must be live,
 * and, among the nodes that run once or that nobody reads, those that must have run. From the end of the step
 * a state goes back by the run of a node: the node's outputs are no longer needed, its inputs are. The empty
 * state is the start of the step. Every state is visited once, depth first, in several orders one after the
 * other, until the work (tensors looked at) is done: a step of some tens of nodes is searched completely.
 * `*work` falls by the work that was done.
 *
 * `found`: `out`, which starts empty, is the schedule; otherwise it stays empty. Deterministic.
 * NEAP_OUT_OF_MEMORY. */
neap_status pebble(const neap_step *step, uint64_t limit, int64_t *work, struct schedule *out, bool *found);

/* Looks for the cheapest of all such schedules: best-first search over the same states, where all that a
 * state depends on must still run (A*). Not `found` if none exists or the work is too little; a step of some
 * tens of nodes may be too large. */
neap_status pebble_cheapest(const neap_step *step, uint64_t limit, int64_t *work, struct schedule *out,
                            bool *found);

#endif
