/* Resizes pictures: bilinear with antialias, to the bit as Pillow's resize(BILINEAR). */
#ifndef NEAP_PICTURE_RESIZE_H
#define NEAP_PICTURE_RESIZE_H

#include "picture/picture_size.h"

/* A rectangle of a picture. */
struct box {
  int64_t left, top, width, height;
};

/* Memory for resizing; it grows as needed. Zeros: empty. */
struct resizer {
  unsigned char *memory;
  size_t capacity;
};

/* The size to which a box is resized, and the part of the result that is kept. */
struct target {
  int64_t height, width;
  struct box kept;
};

/* Resizes a box of the picture to the target's size, and writes the kept part as planes [channels,
 * kept.height, kept.width]. Pixels outside the box have no influence. A box that has the size is copied.
 * NEAP_OUT_OF_MEMORY. */
neap_status resize_box(struct resizer *resizer, const struct picture *picture, struct box box,
                       const struct target *target, uint8_t *out);

/* Returns the most bytes that resizing a picture to that size needs. */
size_t resize_bytes(int64_t picture_height, int64_t picture_width, int64_t height, int64_t width);

/* Makes room for `bytes` bytes. */
neap_status resize_reserve(struct resizer *resizer, size_t bytes);

void resize_free(struct resizer *resizer);

#endif
