/* The least memory that Neap's own planner finds a schedule for (docs/design/planning.md). */
#ifndef NEAP_SEARCH_NEAP_LEAST_H
#define NEAP_SEARCH_NEAP_LEAST_H

#include "search/descent.h"

/* The schedules on the way there that no other beats, into an empty descent; they depend on the step alone,
 * not on the number of threads. On failure the descent is empty. */
neap_status find_descent(const neap_step *step, struct descent *out);

#endif
