/* Data that the caller's functions give. */
#ifndef NEAP_DATA_OWN_H
#define NEAP_DATA_OWN_H

#include "data/source.h"

/* Makes a zeroed source, whose task is set, one of the caller's. `own` is borrowed until source_close.
 * NEAP_INVALID_ARGUMENT: it has no function, no records or no field that a model takes. */
neap_status own_open(const neap_data_source *own, struct source *source);

#endif
