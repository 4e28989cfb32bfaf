/* CIFAR-10, binary version: records of a label byte and 3 x 32 x 32 pixels, in data_batch_1.bin up to
 * data_batch_5.bin and test_batch.bin. */
#include <stdio.h>

#include "train/data_source.h"

enum { PIXELS = 3 * 32 * 32, RECORD = 1 + PIXELS, TRAINING_FILES = 5 };

static neap_status add_file(struct data_set *set, const char *path, struct data_split *split) {
  int file;
  size_t size;
  TRY(data_open_file(set, path, &file, &size));
  RETURN_IF(
      size % RECORD != 0, NEAP_BAD_FORMAT,
      "%s: %zu bytes are no whole number of records of %d bytes (the last begins at offset %zu); is it the "
      "binary version of CIFAR-10, completely copied?",
      path, size, RECORD, size / RECORD * RECORD);
  uint8_t *labels = region_alloc(&set->region, size / RECORD, 1);
  RETURN_IF_NULL(labels);
  TRY(data_read_file(path, file, 0, (int64_t)(size / RECORD), RECORD, 1, labels));
  const struct data_part part = {.file = path,
                                 .descriptor = file,
                                 .count = (int64_t)(size / RECORD),
                                 .pixel_offset = 1,
                                 .pixel_stride = RECORD,
                                 .labels = labels,
                                 .label_stride = RECORD};
  return data_add_part(split, &part);
}

neap_status cifar10_open(const char *argument, struct data_set *set) {
  set->image[0] = 3;
  set->image[1] = set->image[2] = 32;
  set->classes = 10;
  set->crop_padding = 4;
  set->flip = true;
  const char *absent = NULL;
  for (int k = 1; k <= TRAINING_FILES; k++) {
    const char *path = region_format(&set->region, "%s/data_batch_%d.bin", argument, k);
    RETURN_IF_NULL(path);
    if (!data_file_exists(path)) {
      if (absent == NULL) absent = path;
      continue;
    }
    /* Fewer files are fewer data; a hole is a mistake. */
    RETURN_IF(absent != NULL, NEAP_IO_FAILED, "%s: is missing, while %s is there", absent, path);
    TRY(add_file(set, path, &set->train));
  }
  RETURN_IF(set->train.count == 0, NEAP_IO_FAILED,
            "%s: is not there; the binary version of CIFAR-10 has data_batch_1.bin to data_batch_5.bin and "
            "test_batch.bin in one folder",
            absent);
  const char *test = region_format(&set->region, "%s/test_batch.bin", argument);
  RETURN_IF_NULL(test);
  return add_file(set, test, &set->test);
}
