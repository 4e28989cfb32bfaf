/* Mean and deviation of bytes of images. */
#ifndef NEAP_DATA_STATISTICS_H
#define NEAP_DATA_STATISTICS_H

#include "data/source.h"

/* Sets mean and deviation (unbiased; 1 where a channel is constant) of each channel over the training
 * records, which are all read, on the task's threads. They do not depend on how many there are. */
neap_status statistics_take(struct source *source);

/* How many threads read records of a source. */
int source_threads(const struct source *source);

/* How a session normalises the images of the source where it keeps them as bytes; without a name where the
 * source has none. */
neap_byte_input statistics_byte_input(const struct source *source);

#endif
