/* Small steps, searched whole: a game of pebbles played backwards. */
#ifndef NEAP_SEARCH_PEBBLING_H
#define NEAP_SEARCH_PEBBLING_H

#include "step/schedule.h"

/* Looks for a schedule whose live values never take more than `limit` bytes, whatever it costs.
 *
 * A state is what the rest of a schedule asks of all that comes before it: the values that must be live, and
 * of the nodes that run once or that nobody reads those that must have run. From the end of the step a state
 * goes back by the run of a node: what that makes is asked for no longer, what it reads is. The empty state
 * is the start of the step. Every state is visited once, depth first, in some orders one after the other,
 * until the work (of tensors looked at) is done: a step of some tens of nodes is searched whole. `*work`
 * falls by what was done.
 *
 * `found`: `out`, which starts empty, is the schedule; else it stays empty. Deterministic.
 * NEAP_OUT_OF_MEMORY. */
neap_status pebble(const neap_step *step, uint64_t limit, int64_t *work, struct schedule *out, bool *found);

/* The cheapest of all such schedules: best-first search over the same states, where all that a state depends
 * on must still run (A*). Not `found` if none exists or the work is too little; a step of some tens of nodes
 * may be too large. */
neap_status pebble_cheapest(const neap_step *step, uint64_t limit, int64_t *work, struct schedule *out,
                            bool *found);

#endif
