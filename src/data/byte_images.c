#include "data/byte_images.h"

#include <string.h>

#include "base/file.h"

struct byte_images {
  VECTOR(struct byte_images_part) parts[SPLITS];
};

static const struct byte_images_part *find_part(const struct source *source, enum split split,
                                                int64_t *record) {
  const struct byte_images *images = source->context;
  const struct byte_images_part *part = images->parts[split].data;
  while (*record >= part->count) *record -= part++->count;
  return part;
}

static neap_status read_record(const struct source *source, enum split split, int64_t record,
                               const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)draw, (void)lengths;
  const struct byte_images_part *part = find_part(source, split, &record);
  if (fields[1] != NULL) *(int32_t *)fields[1] = part->labels[record];
  if (fields[0] == NULL) return NEAP_OK;
  const size_t at = part->offset + (size_t)record * part->stride;
  const int error = file_read_at(part->descriptor, at, fields[0], (size_t)field_elements(&source->fields[0]));
  RETURN_IF(error == FILE_ENDS, NEAP_BAD_FORMAT,
            "%s: record %lld at offset %zu is incomplete: the file was cut after it was opened", part->file,
            (long long)record, at);
  RETURN_IF(error != 0, NEAP_IO_FAILED, "%s: record %lld at offset %zu cannot be read: %s", part->file,
            (long long)record, at, strerror(error));
  return NEAP_OK;
}

static void close_images(struct source *source) {
  struct byte_images *images = source->context;
  for (int i = 0; i < SPLITS; i++) vector_free(&images->parts[i]);
}

neap_status byte_images_begin(struct source *source, const int64_t image[3], int64_t classes) {
  const struct byte_images none = {0};
  source->context = region_copy(&source->region, &none, 1, sizeof none);
  RETURN_IF_NULL(source->context);
  source->close = close_images;
  source->read = read_record;
  source->classes = classes;
  TRY(source_add_field(source, (struct field){"image", NEAP_U8, 3, {image[0], image[1], image[2]}, false}));
  return source_add_field(source, (struct field){"label", NEAP_I32, 0, {0}, false});
}

neap_status byte_images_add(struct source *source, enum split split, const struct byte_images_part *part) {
  struct byte_images *images = source->context;
  for (int64_t i = 0; i < part->count; i++)
    RETURN_IF(part->labels[i] >= source->classes, NEAP_BAD_FORMAT,
              "%s: record %lld, offset %zu: label %d, but classes are 0 to %lld", part->file, (long long)i,
              part->label_offset + (size_t)i * part->label_stride, part->labels[i],
              (long long)source->classes - 1);
  RETURN_IF(part->count > INT32_MAX - source->records[split], NEAP_TOO_LARGE,
            "%s: a data set has at most %d records", part->file, INT32_MAX);
  TRY(vector_push(&images->parts[split], *part));
  source->records[split] += part->count;
  return NEAP_OK;
}
