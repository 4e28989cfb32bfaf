/* What a source of data needs: one open function a source, one row in the table of data.c. */
#ifndef NEAP_TRAIN_DATA_SOURCE_H
#define NEAP_TRAIN_DATA_SOURCE_H

#include "base/random.h"
#include "train/data.h"

/* Sets name, image, classes, the splits and the augmentation of a zeroed set. `argument` is what follows the
 * colon, "" where there is none. Labels are checked by the caller. */
neap_status cifar10_open(const char *argument, struct data_set *set);
neap_status mnist_open(const char *argument, struct data_set *set);
neap_status synthetic_open(const char *argument, struct data_set *set);

/* Maps a file for reading until data_close. An empty file is an error. */
neap_status data_map_file(struct data_set *set, const char *path, const uint8_t **bytes, size_t *size);

neap_status data_add_part(struct data_split *split, const struct data_part *part);

bool data_file_exists(const char *path);

/* The random streams of data, apart from those of operators and of first values, which have the same seed:
 * `index` (an epoch, an image) is below 2^56, and so are the streams of operators. */
enum data_stream { STREAM_SHUFFLE = 0x41, STREAM_AUGMENT, STREAM_DRAW, STREAM_COLOUR };

static inline void data_random(uint64_t seed, enum data_stream kind, uint64_t index, uint64_t counter,
                               uint32_t out[4]) {
  random_philox(seed, (uint64_t)kind << 56 | index, counter, out);
}

#endif
