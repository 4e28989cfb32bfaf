/* Records of data as a test wants them: filled into arrays of its own. */
#ifndef NEAP_TESTS_DATA_HELP_H
#define NEAP_TESTS_DATA_HELP_H

#include <stddef.h>

#include "data/loader.h"
#include "data/statistics.h"

/* Opens data of images, as for a model without any wishes. */
static inline neap_status open_images(struct loader *loader, const char *text) {
  return loader_open(loader, text, &(struct task){0});
}

/* Where a batch goes, and how. */
struct batch {
  int count;              /* records */
  const int32_t *records; /* negative: none */
  struct draw draw;
  enum split split;
  int threads;
  void *images;     /* f32, or bytes where there are windows; NULL: none are wanted */
  int32_t *windows; /* [count, 4] */
  int32_t *labels;  /* [count], or maps of these sides */
  int64_t map_height, map_width;
};

static inline neap_status fill_batch(struct loader *loader, const struct batch *batch) {
  struct field inputs[3] = {0};
  const struct field *image = source_image(&loader->source);
  int count = 0;
  inputs[count] = *image;
  inputs[count++].dtype = batch->windows != NULL ? NEAP_U8 : NEAP_F32;
  inputs[count++] = (struct field){
      "label", NEAP_I32, batch->map_height > 0 ? 2 : 0, {batch->map_height, batch->map_width}, false};
  if (batch->windows != NULL) inputs[count++] = (struct field){"image.window", NEAP_I32, 1, {4}, false};
  const struct division division = {.batch = batch->count, .micro = batch->count};
  neap_status status = loader_divide(loader, &division);
  if (status == NEAP_OK) status = loader_prepare(loader, inputs, count);
  if (status != NEAP_OK) return status;
  loader->threads = batch->threads < loader->threads ? batch->threads : loader->threads;
  loader_attach_input(loader, "image", batch->images);
  loader_attach_input(loader, "label", batch->labels);
  loader_attach_input(loader, "image.window", batch->windows);
  return loader_fill_places(loader, batch->split, 0, batch->records, &batch->draw, batch->images == NULL);
}

/* The bytes and the label of a record as its file has them. */
static inline neap_status read_image(const struct loader *loader, enum split split, int64_t record,
                                     uint8_t *pixels, int32_t *label) {
  const struct draw plain = {0};
  void *fields[FIELD_LIMIT] = {pixels, label};
  int64_t lengths[FIELD_LIMIT];
  return loader->source.read(&loader->source, split, record, &plain, fields, lengths);
}

#endif
