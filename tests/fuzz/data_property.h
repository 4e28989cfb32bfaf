/* What holds for all data of images that can be opened. */
#ifndef NEAP_TESTS_FUZZ_DATA_PROPERTY_H
#define NEAP_TESTS_FUZZ_DATA_PROPERTY_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../data_help.h"
#include "support.h"

/* A record of a part; valid until the second call after this one. */
static inline const uint8_t *record_pixels(const struct loader *set, enum split split, int64_t record,
                                           int32_t *label) {
  static uint8_t *buffers[2];
  static int turn;
  turn = !turn;
  buffers[turn] = realloc(buffers[turn], (size_t)field_elements(source_image(&set->source)));
  CHECK(buffers[turn] != NULL);
  CHECK_OK(read_image(set, split, record, buffers[turn], label));
  return buffers[turn];
}

/* Two sets are the same. */
static inline void check_same_set(const struct loader *x, const struct loader *y) {
  const struct source *a = &x->source, *b = &y->source;
  const struct field *image = source_image(a), *other_image = source_image(b);
  for (int i = 0; i < 3; i++) CHECK(image->dims[i] == other_image->dims[i]);
  CHECK(a->classes == b->classes && memcmp(a->mean, b->mean, sizeof a->mean) == 0);
  for (int s = 0; s < SPLITS; s++) {
    CHECK(a->records[s] == b->records[s]);
    for (int64_t i = 0; i < a->records[s]; i++) {
      int32_t label, other;
      const uint8_t *pixels = record_pixels(x, (enum split)s, i, &label);
      CHECK(memcmp(pixels, record_pixels(y, (enum split)s, i, &other), (size_t)field_elements(image)) == 0);
      CHECK(label == other);
    }
  }
}

/* Every record becomes its label and its pixels, less the mean and over the deviation; a moved one keeps its
 * label. */
static inline void check_batches(struct loader *set, enum split split) {
  const struct source *source = &set->source;
  const struct field *field = source_image(source);
  const int64_t pixels = field_elements(field), plane = field->dims[1] * field->dims[2];
  float *image = calloc((size_t)pixels, sizeof *image);
  CHECK(image != NULL && source->records[split] > 0);
  for (int64_t i = 0; i < source->records[split]; i++) {
    const int32_t record = (int32_t)i;
    int32_t filled = -2, label;
    const uint8_t *bytes = record_pixels(set, split, i, &label);
    struct batch batch = {.count = 1,
                          .records = &record,
                          .threads = 1,
                          .split = split,
                          .draw = {true, 5, 0},
                          .images = image,
                          .labels = &filled};
    CHECK_OK(fill_batch(set, &batch));
    CHECK(filled == label && label >= 0 && label < source->classes);
    for (int64_t k = 0; k < pixels; k++) CHECK(isfinite(image[k]));
    batch.draw.augment = false;
    CHECK_OK(fill_batch(set, &batch));
    CHECK(filled == label);
    for (int64_t k = 0; k < pixels; k++) {
      const double wanted = (bytes[k] - source->mean[k / plane]) / source->deviation[k / plane];
      CHECK(fabs(image[k] - wanted) <= 1e-4 * (1 + fabs(wanted)));
    }
  }
  free(image);
}

#endif
