/* The random streams of data. Every checkpoint depends on their numbers: never change them. */
#ifndef NEAP_DATA_STREAM_H
#define NEAP_DATA_STREAM_H

#include "base/random.h"

/* They differ from the streams of operators and of first values, which use the same seed: `index` (an epoch,
 * an image) is below 2^56, and so are the streams of operators. */
enum data_stream {
  STREAM_SHUFFLE = 0x41,
  STREAM_AUGMENT,
  STREAM_DRAW,
  STREAM_COLOUR,
  STREAM_WINDOW,
  STREAM_MASK,
  STREAM_HOLDOUT,
  STREAM_MIXUP
};

static inline void data_random(uint64_t seed, enum data_stream kind, uint64_t index, uint64_t counter,
                               uint32_t out[4]) {
  random_philox(seed, (uint64_t)kind << 56 | index, counter, out);
}

#endif
