/* What a source of data needs: one open function a source, one row in the table of data_open.c. */
#ifndef NEAP_TRAIN_DATA_SOURCE_H
#define NEAP_TRAIN_DATA_SOURCE_H

#include "train/data.h"

/* Sets name, image, classes, the splits and the augmentation of a zeroed set. `argument` is what follows the
 * colon, "" where there is none. Labels are checked by the caller. */
neap_status cifar10_open(const char *argument, struct data_set *set);
neap_status mnist_open(const char *argument, struct data_set *set);
neap_status synthetic_open(const char *argument, struct data_set *set);
neap_status text_open(const char *argument, struct data_set *set);
neap_status tokens_open(const char *argument, struct data_set *set);
neap_status parallel_open(const char *argument, struct data_set *set);

/* Opens a file for reading until data_close. An empty file is an error. */
neap_status data_open_file(struct data_set *set, const char *path, int *descriptor, size_t *size);

/* Has data_close close what is open; on failure it is closed now. `path` is for messages. */
neap_status data_keep_file(struct data_set *set, const char *path, int descriptor);

/* Reads `count` pieces of `bytes`, `stride` apart from `offset` on. NEAP_BAD_FORMAT: the file ends before. */
neap_status data_read_file(const char *path, int descriptor, size_t offset, int64_t count, size_t stride,
                           size_t bytes, uint8_t *data);

/* Opens a temporary file until data_close, for what becomes of `path`, which is for messages; and writes all
 * of the bytes to it. */
neap_status data_temporary_file(struct data_set *set, const char *path, int *descriptor);
neap_status data_write_file(const char *path, int descriptor, const void *bytes, size_t count);

/* Splits "FILE,key=value,...": *values[0] is what stands first, *values[k] what follows keys[k], where it is
 * there. A comma that no known key follows belongs to what stands before it. `keys` end with NULL. */
neap_status data_parse(struct data_set *set, const char *argument, const char *const *keys,
                       const char **const *values);

/* Whether a tokenizer is named by its file. */
bool data_is_tokenizer(const char *name);

neap_status data_add_part(struct data_split *split, const struct data_part *part);

bool data_file_exists(const char *path);

#endif
