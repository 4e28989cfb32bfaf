/* Computes mean and deviation of bytes of images. */
#ifndef NEAP_DATA_STATISTICS_H
#define NEAP_DATA_STATISTICS_H

#include "data/source.h"

/* Sets mean and deviation (unbiased; 1 if a channel is constant) of each channel over the training records.
 * Reads all of them, on the task's threads, whose number does not change the result. */
neap_status statistics_take(struct source *source);

/* Returns the number of threads that read records of a source. */
int source_threads(const struct source *source);

/* Tells how a session that keeps the source's images as bytes normalises them; without a name if the source
 * has no such images. */
neap_byte_input statistics_byte_input(const struct source *source);

#endif
