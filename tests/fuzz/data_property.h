/* What holds for every data set that can be opened. */
#ifndef NEAP_TESTS_FUZZ_DATA_PROPERTY_H
#define NEAP_TESTS_FUZZ_DATA_PROPERTY_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "train/data_open.h"

/* A record of a split; valid until the second call after this one. */
static inline const uint8_t *record_pixels(const struct data_set *set, const struct data_split *split,
                                           int64_t record, int *label) {
  static uint8_t *buffers[2];
  static int turn;
  turn = !turn;
  buffers[turn] = realloc(buffers[turn], data_image_bytes(set));
  CHECK(buffers[turn] != NULL);
  CHECK_OK(data_read(set, split, record, buffers[turn], label));
  return buffers[turn];
}

/* Two sets are the same. */
static inline void check_same_set(const struct data_set *a, const struct data_set *b) {
  const size_t pixels = (size_t)(a->image[0] * a->image[1] * a->image[2]);
  for (int i = 0; i < 3; i++) CHECK(a->image[i] == b->image[i]);
  CHECK(a->train.count == b->train.count && a->test.count == b->test.count && a->classes == b->classes);
  CHECK(memcmp(a->mean, b->mean, sizeof a->mean) == 0);
  for (int s = 0; s < 2; s++) {
    const struct data_split *x = s == 0 ? &a->train : &a->test, *y = s == 0 ? &b->train : &b->test;
    for (int64_t i = 0; i < x->count; i++) {
      int label, other;
      CHECK(memcmp(record_pixels(a, x, i, &label), record_pixels(b, y, i, &other), pixels) == 0 &&
            label == other);
    }
  }
}

/* Every record becomes its label and its pixels, less the mean and over the deviation; a moved one keeps its
 * label. */
static inline void check_batches(const struct data_set *set, const struct data_split *split) {
  const int64_t pixels = set->image[0] * set->image[1] * set->image[2], plane = set->image[1] * set->image[2];
  float *image = calloc((size_t)pixels, sizeof *image);
  CHECK(image != NULL && split->count > 0);
  for (int64_t i = 0; i < split->count; i++) {
    const int32_t record = (int32_t)i;
    int32_t filled = -2;
    int label;
    const uint8_t *bytes = record_pixels(set, split, i, &label);
    struct data_batch batch = {.count = 1, .records = &record, .threads = 1, .augment = true, .seed = 5};
    CHECK_OK(data_fill(set, split, &batch, image, &filled));
    CHECK(filled == label && label >= 0 && label < set->classes);
    for (int64_t k = 0; k < pixels; k++) CHECK(isfinite(image[k]));
    batch.augment = false;
    CHECK_OK(data_fill(set, split, &batch, image, &filled));
    CHECK(filled == label);
    for (int64_t k = 0; k < pixels; k++) {
      const double wanted = (bytes[k] - set->mean[k / plane]) / set->deviation[k / plane];
      CHECK(fabs(image[k] - wanted) <= 1e-4 * (1 + fabs(wanted)));
    }
  }
  free(image);
}

#endif
