/* The times at which sparse values change places: more rarely as a run goes on, and not at its end. */
#ifndef NEAP_TRAIN_REWIRING_H
#define NEAP_TRAIN_REWIRING_H

#include "base/status.h"

/* Returns true if step `step` (from 1) of `steps` is followed by rewiring; at first every `every` steps are.
 * The interval doubles after 1/8, 2/5 and 7/10 of the run, and the last twentieth has no rewiring (Mostafa
 * and Wang 2019, for WRN-28-2). */
bool rewiring_due(int64_t step, int64_t steps, int64_t every);

#endif
