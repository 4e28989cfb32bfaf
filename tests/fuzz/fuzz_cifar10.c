/* Folders of CIFAR-10. A folder is taken where its files are whole records with labels below 10, without a
 * hole in the numbers of the training files, as this file counts for itself; its records are then those of
 * the files in their order. Else a message names the folder. */
#include <stdio.h>

#include "data_property.h"

enum { RECORD = 3073, FILES = 6, TRAINING_FILES = 5 };
static const char *const names[FILES] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

static bool is_whole(struct fuzz_bytes part) {
  if (part.size == 0 || part.size % RECORD != 0) return false;
  for (size_t i = 0; i < part.size; i += RECORD)
    if ((unsigned char)part.text[i] >= 10) return false;
  return true;
}

static bool is_good(const struct fuzz_bytes parts[FILES]) {
  bool ended = false;
  for (int i = 0; i < TRAINING_FILES; i++) {
    if (parts[i].text == NULL)
      ended = true;
    else if (ended || !is_whole(parts[i]))
      return false;
  }
  return parts[0].text != NULL && parts[FILES - 1].text != NULL && is_whole(parts[FILES - 1]);
}

static void check_records(const struct loader *set, enum split split, const struct fuzz_bytes *parts,
                          int count) {
  int64_t record = 0;
  for (int i = 0; i < count; i++)
    for (size_t at = 0; parts[i].text != NULL && at < parts[i].size; at += RECORD) {
      int32_t label;
      CHECK(record < set->source.records[split]);
      const uint8_t *pixels = record_pixels(set, split, record++, &label);
      CHECK(label == parts[i].text[at] && memcmp(pixels, parts[i].text + at + 1, RECORD - 1) == 0);
    }
  CHECK(record == set->source.records[split]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *folder = fuzz_folder("cifar10");
  struct fuzz_bytes parts[FILES];
  struct loader set;
  char name[128];
  for (int i = 0; i < FILES; i++) parts[i] = fuzz_part(data, size, names[i]);
  fuzz_unpack(data, size, folder, names, FILES);
  snprintf(name, sizeof name, "cifar10:%s", folder);
  const neap_status status = open_images(&set, name);
  fuzz_taken = status == NEAP_OK;
  CHECK(fuzz_taken == is_good(parts));
  if (fuzz_taken) {
    check_records(&set, SPLIT_TRAIN, parts, TRAINING_FILES);
    check_records(&set, SPLIT_TEST, &parts[FILES - 1], 1);
    check_batches(&set, SPLIT_TRAIN);
    check_batches(&set, SPLIT_TEST);
  } else {
    CHECK(status == NEAP_BAD_FORMAT || status == NEAP_IO_FAILED);
    fuzz_check_refused(status, folder);
  }
  loader_close(&set);
  return 0;
}
