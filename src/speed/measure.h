/* Measures costs on this machine. */
#ifndef NEAP_SPEED_MEASURE_H
#define NEAP_SPEED_MEASURE_H

#include "kernel/kernel.h"

/* Replaces the costs in the step by times measured on this machine, with the threads it is lowered for, in a
 * temporary mapping as large as the largest node. Kernels whose times are in the database (the path of a
 * cost_database; NULL: none) are not timed. The others are entered there; `*timed` (may be NULL) is their
 * number. */
neap_status measure_costs(struct lowered *lowered, const char *database, int32_t *timed);

#endif
