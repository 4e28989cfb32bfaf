/* Lower bounds on the cost of plans within a budget. They hold for every valid schedule, with any number of
 * repeats, in any order (docs/formats.md). */
#ifndef NEAP_PLAN_COST_BOUND_H
#define NEAP_PLAN_COST_BOUND_H

#include "step/step.h"

/* Gives a lower bound on the cost of a schedule with a peak of at most `budget` bytes, resident ones
 * included; infinite if it shows that no such schedule exists.
 *
 * Take any node c and the position of its first run. Some nodes have run by then in every schedule (B: the
 * nodes that c needs, directly or not, and the readers of a tensor before its update), some have not (A: the
 * nodes that need c). Take a value that a node of B makes and that a node of A reads, or that is an output of
 * the step. Either it is live across the position, together with all that c needs to run, or its maker runs
 * once more later. In the second case each input of that maker is live or is made again too, and so on. A
 * live value is not taken over in place there, and the inputs of c are counted as live for free. A node of B
 * that runs later has run before: all such runs are repeats. So the cost of repeats is at least the least sum
 * of costs over sets of nodes to make again, closed in this way, that leave no more to keep than there is
 * room for. With a price on a byte in place of the limit on room, this is a least cut: a node made again pays
 * its cost; a value that is needed, but whose maker is not made again, pays for its bytes. For every price
 * that cut less the price of the room is a bound (Lagrange). It is the value of any flow, so rounding
 * capacities down keeps it a bound. The best price is searched for.
 *
 * With a second node d that comes after c in every schedule, the repeats between the two are bounded in the
 * same way, from the values that are read by nodes whose first run is between the two in every schedule. This
 * bound and that of the repeats after d add up. The result is the best chain of some nodes. Takes hundredths
 * of a second for some hundred nodes, some tenths for ten thousand. May return NEAP_OUT_OF_MEMORY. */
neap_status plan_cost_bound(const neap_step *step, uint64_t budget, double *cost);

/* Raises `*cost` to the cost of a small step's cheapest schedule (search/pebbling.h), if that is found. */
neap_status plan_least_cost(const neap_step *step, uint64_t budget, double *cost);

#endif
