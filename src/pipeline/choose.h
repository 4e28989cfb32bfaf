/* Our way: stage borders, recomputation of each stage and the order of tasks together, within the budget. */
#ifndef NEAP_PIPELINE_CHOOSE_H
#define NEAP_PIPELINE_CHOOSE_H

#include "pipeline/stages.h"

/* Offers what the published ways offer, so that none of them is better; then, with one stage a rank, all
 * borders and choices of recomputation that a bound does not rule out, as far as a limit of work (each in a
 * few orders, from one forward, one backward to all forward first); then several stages a rank, improved
 * border by border; and the schedule of least bytes, which takes one micro-batch after the other. */
neap_status pipeline_choose(const struct pipeline_problem *problem, struct pipeline_best *best);

#endif
