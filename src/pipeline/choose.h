/* Our way: stage borders, recomputation of each stage and the order of tasks together, within the budget. */
#ifndef NEAP_PIPELINE_CHOOSE_H
#define NEAP_PIPELINE_CHOOSE_H

#include "pipeline/stages.h"

/* Offers, in this order: the schedules of the published ways, so that none of them is better; those that take
 * the fewest bytes; several stages a rank, improved border by border; then, with one stage a rank, each
 * choice of borders and recomputation that a bound leaves, up to a limit of work. Each choice is tried in a
 * few orders, from one forward, one backward to all forward first. */
neap_status pipeline_choose(const struct pipeline_problem *problem, struct pipeline_best *best);

#endif
