/* Data given by the caller's functions. */
#ifndef NEAP_DATA_OWN_H
#define NEAP_DATA_OWN_H

#include "data/source.h"

/* Opens the caller's data in a zeroed source whose task is set. `own` is borrowed until source_close.
 * NEAP_INVALID_ARGUMENT: it has no function, no records or no field that a model takes. */
neap_status own_open(const neap_data_source *own, struct source *source);

#endif
