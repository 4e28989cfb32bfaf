/* What no plan within a budget can do better than in cost: it holds for every valid schedule, with any number
 * of repeats, in any order (docs/formats.md). */
#ifndef NEAP_PLAN_COST_BOUND_H
#define NEAP_PLAN_COST_BOUND_H

#include "step/step.h"

/* The least cost of a schedule with a peak of at most `budget` bytes, resident ones included, from below;
 * infinite where it shows that none exists.
 *
 * Take any node c and the position of its first run. Some nodes have run by then in every schedule (B: what c
 * needs, directly or not, and the readers of a tensor before its update), some have not (A: what needs c).
 * A value that a node of B makes and one of A reads, or that is an output of the step, is then either live
 * across the position, beside all that c needs to run, or its maker runs once more later; and then so does,
 * or is live, each input of that maker, and so on. What is live is not taken over in place there, and what c
 * reads is taken as live for free. A node of B that runs later has run before: all such runs are repeats. So
 * the cost of repeats is at least the least sum of costs over sets of nodes to make again, closed in this
 * way, that leave no more to keep than there is room for. With a price on a byte in place of the limit on
 * room, this is a least cut (a node made again pays its cost; a value that is needed, but whose maker is not
 * made again, pays for its bytes), and for every price that cut less the price of the room is a bound
 * (Lagrange); it is the value of any flow, so rounding capacities down keeps it one. The best price is
 * searched for.
 *
 * With a second node d that comes after c in every schedule, the repeats between the two are bounded in the
 * same way, from what is read by nodes whose first run lies between the two in every schedule; they add up
 * with those after d. The bound is the best chain of some nodes. Hundredths of a second for some hundred
 * nodes, some tenths for ten thousand. NEAP_OUT_OF_MEMORY. */
neap_status plan_cost_bound(const neap_step *step, uint64_t budget, double *cost);

/* Raises `*cost` to what the cheapest schedule of a small step costs (search/pebbling.h), if it is found. */
neap_status plan_least_cost(const neap_step *step, uint64_t budget, double *cost);

#endif
