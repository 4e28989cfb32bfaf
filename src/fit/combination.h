/* Finds the techniques that a step takes, where it may take several. */
#ifndef NEAP_FIT_COMBINATION_H
#define NEAP_FIT_COMBINATION_H

#include <stdbool.h>

#include "neap.h"

/* Names the techniques by the other fields. */
void combination_name(neap_combination *combination);

/* neap_combinations(); `fits`: only up to the first that fits. */
neap_status combinations_until(bool fits, const neap_model *model, const neap_model_options *shape,
                               const neap_session_options *options, unsigned allowed, neap_combination *list,
                               int *count);

#endif
