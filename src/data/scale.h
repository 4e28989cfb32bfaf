/* Standardises numbers by the training records, in double. */
#ifndef NEAP_DATA_SCALE_H
#define NEAP_DATA_SCALE_H

#include "data/source.h"

/* Takes mean and deviation (of the population; 1 where an element is constant or has no number) of a field of
 * f32 over the training records, by source->read_numbers. Reads all records, also those to test with. Until
 * then the field has no scale. */
neap_status scale_take(struct source *source, int field);

/* Standardises element k of a field; a gap becomes the mean. A scale without elements leaves the number as it
 * is. */
float scale_apply(const struct scale *scale, int64_t k, double number);

/* Returns the number that was standardised to that value. */
double scale_restore(const struct scale *scale, int64_t k, double value);

#endif
