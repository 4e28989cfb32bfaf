/* The picture and its size, for all readers of pictures. */
#ifndef NEAP_PICTURE_PICTURE_SIZE_H
#define NEAP_PICTURE_PICTURE_SIZE_H

#include <stdint.h>

#include "base/status.h"

enum { PICTURE_MAX_SIDE = 65500 };

struct picture {
  int64_t width, height;
  int channels;       /* 3, or 1: grey */
  uint8_t *pixels;    /* [height, width, channels] */
  size_t capacity;    /* allocated bytes of `pixels` */
  bool as_stored;     /* not held up by its orientation, as runs from before it was read have pictures */
  int orientation;    /* 1 to 8, by which it was held up; 1: it lies as it is stored */
  uint8_t *spare;     /* memory beside the pixels, to turn or convert them */
  size_t spare_bytes; /* that this picture's kind needs of it to be decoded */
  size_t spare_capacity;
};

/* NEAP_UNSUPPORTED: the picture has more than PICTURE_MAX_SIDE pixels a side or 2^27 in total. */
neap_status picture_check_size(const char *path, int64_t width, int64_t height);

/* Makes room for the picture's pixels, or beside them. */
neap_status picture_reserve(const char *path, struct picture *picture);
neap_status picture_reserve_spare(const char *path, size_t bytes, struct picture *picture);

#endif
