/* Reads CIFAR-10, binary version: records of a label byte and 3 x 32 x 32 pixels, in data_batch_1.bin up to
 * data_batch_5.bin and test_batch.bin. */
#include <stdio.h>

#include "base/file.h"
#include "data/byte_images.h"
#include "data/readers.h"

enum { PIXELS = 3 * 32 * 32, RECORD = 1 + PIXELS, TRAINING_FILES = 5 };

static neap_status add_file(struct source *source, const char *path, enum split split) {
  int file;
  size_t size;
  TRY(source_open_file(source, path, &file, &size));
  RETURN_IF(size % RECORD != 0, NEAP_BAD_FORMAT,
            "%s: %zu bytes are not a whole number of records of %d bytes (the last begins at offset %zu); is "
            "it the binary version of CIFAR-10, completely copied?",
            path, size, RECORD, size / RECORD * RECORD);
  uint8_t *labels = region_alloc(&source->region, size / RECORD, 1);
  RETURN_IF_NULL(labels);
  TRY(source_read_file(path, file, 0, (int64_t)(size / RECORD), RECORD, 1, labels));
  const struct byte_images_part part = {.file = path,
                                        .descriptor = file,
                                        .count = (int64_t)(size / RECORD),
                                        .offset = 1,
                                        .stride = RECORD,
                                        .labels = labels,
                                        .label_stride = RECORD};
  return byte_images_add(source, split, &part);
}

neap_status cifar10_open(const char *argument, struct source *source) {
  TRY(byte_images_begin(source, (int64_t[]){3, 32, 32}, 10));
  source->crop_padding = 4;
  source->flip = true;
  const char *absent = NULL;
  for (int k = 1; k <= TRAINING_FILES; k++) {
    const char *path = region_format(&source->region, "%s/data_batch_%d.bin", argument, k);
    RETURN_IF_NULL(path);
    if (!file_exists(path)) {
      if (absent == NULL) absent = path;
      continue;
    }
    /* Fewer files are fewer data; a hole is a mistake. */
    RETURN_IF(absent != NULL, NEAP_IO_FAILED, "%s: is missing, but %s exists", absent, path);
    TRY(add_file(source, path, SPLIT_TRAIN));
  }
  RETURN_IF(source->records[SPLIT_TRAIN] == 0, NEAP_IO_FAILED,
            "%s: is missing; the binary version of CIFAR-10 has data_batch_1.bin to data_batch_5.bin and "
            "test_batch.bin in one folder",
            absent);
  const char *test = region_format(&source->region, "%s/test_batch.bin", argument);
  RETURN_IF_NULL(test);
  return add_file(source, test, SPLIT_TEST);
}
