/* Pictures in another size: bilinear with antialias, to the bit as Pillow's resize(BILINEAR). */
#ifndef NEAP_DATA_RESIZE_H
#define NEAP_DATA_RESIZE_H

#include "data/picture_size.h"

/* Of a picture. */
struct box {
  int64_t left, top, width, height;
};

/* What resizing needs; it grows as it must. Zeros: empty. */
struct resizer {
  unsigned char *memory;
  size_t capacity;
};

/* The size that a box gets, and what is kept of that. */
struct target {
  int64_t height, width;
  struct box kept;
};

/* Writes what is kept of a box of the picture in the target's size as planes [channels, kept.height,
 * kept.width]; nothing outside of the box counts. A box that has the size is copied. NEAP_OUT_OF_MEMORY. */
neap_status resize_box(struct resizer *resizer, const struct picture *picture, struct box box,
                       const struct target *target, uint8_t *out);

/* Bytes that resizing a picture to that size needs at most. */
size_t resize_bytes(int64_t picture_height, int64_t picture_width, int64_t height, int64_t width);

/* Makes room for `bytes` bytes. */
neap_status resize_reserve(struct resizer *resizer, size_t bytes);

void resize_free(struct resizer *resizer);

#endif
