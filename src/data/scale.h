/* Standardises numbers by the training records. */
#ifndef NEAP_DATA_SCALE_H
#define NEAP_DATA_SCALE_H

#include "data/source.h"
#include "data/transform.h"

/* Takes mean and deviation (of the population; 1 where an element is constant) of a field of f32 over the
 * training records. Reads all records, also those to test with. Until then the field has no scale. */
neap_status scale_take(struct source *source, int field);

/* Standardises the fields that have a scale. */
extern const struct transform transform_standardise;

#endif
