/* The answer to a budget that cannot be met: with which batch could it be? */
#ifndef NEAP_TRAIN_LARGEST_BATCH_H
#define NEAP_TRAIN_LARGEST_BATCH_H

#include "base/status.h"

/* The largest batch below `shape->batch`, which is known not to fit, with which the model and options of the
 * run fit the budget; 0 where none does. Only plans. Takes it that a larger batch needs no less memory; what
 * it gives was planned. A budget that is a fraction is the fraction of what keeping everything needs at
 * `shape->batch`. */
neap_status find_largest_batch(const char *model, const neap_model_options *shape,
                               const neap_session_options *session, int64_t *largest);

#endif
