/* First values of a side net from the model that it is for. */
#ifndef NEAP_TRAIN_SIDE_VALUES_H
#define NEAP_TRAIN_SIDE_VALUES_H

#include "base/status.h"

/* Gives each matrix and vector of the side net every `divisor`-th row and column of the model's own, which
 * has its values; and each Down these rows of the identity, so that a row has the same meaning everywhere.
 * Heads keep the frequencies of their positions. Gates and Up stay as they are. */
neap_status side_values_take(neap_session *session, int64_t divisor);

#endif
