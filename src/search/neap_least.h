/* The least memory in which Neap's own planner finds a schedule (docs/design/planning.md). */
#ifndef NEAP_SEARCH_NEAP_LEAST_H
#define NEAP_SEARCH_NEAP_LEAST_H

#include "search/descent.h"

/* Fills an empty descent with the schedules on the way there that no other one beats. They depend on the step
 * and on `work`, the most of one search (0: the usual), not on the number of threads. On failure the descent
 * is empty. */
neap_status find_descent(const neap_step *step, int64_t work, struct descent *out);

#endif
