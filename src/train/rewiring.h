/* When sparse parameters change places: more rarely as a run goes on, and not at its end. */
#ifndef NEAP_TRAIN_REWIRING_H
#define NEAP_TRAIN_REWIRING_H

#include "base/status.h"

/* Whether to rewire after step `step` (from 1) of `steps`, where it begins with every `every` steps. Times
 * between are doubled after 1/8, 2/5 and 7/10 of the run, and the last twentieth has none (Mostafa and Wang
 * 2019, for WRN-28-2). */
bool rewiring_due(int64_t step, int64_t steps, int64_t every);

#endif
