/* Images stored as bytes [C, H, W] at equal distances in some files, with labels in memory. */
#ifndef NEAP_DATA_BYTE_IMAGES_H
#define NEAP_DATA_BYTE_IMAGES_H

#include "data/source.h"

/* Consecutive records of one file. */
struct byte_images_part {
  const char *file;
  int descriptor;
  int64_t count;
  size_t offset, stride;             /* of the pixels in the file */
  const uint8_t *labels;             /* [count], in the source's region */
  size_t label_offset, label_stride; /* of labels in the file, for messages */
};

/* Sets up the source for such images, without records yet: fields "image" and "label", and its reader. */
neap_status byte_images_begin(struct source *source, const int64_t image[3], int64_t classes);

/* Adds records to a part of the source. NEAP_BAD_FORMAT: a label is none of the classes.
 * NEAP_TOO_LARGE: there are more than INT32_MAX records. */
neap_status byte_images_add(struct source *source, enum split split, const struct byte_images_part *part);

#endif
