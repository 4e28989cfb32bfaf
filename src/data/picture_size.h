/* The picture and its size, for all readers of pictures. */
#ifndef NEAP_DATA_PICTURE_SIZE_H
#define NEAP_DATA_PICTURE_SIZE_H

#include <stdint.h>

#include "base/status.h"

enum { PICTURE_MAX_SIDE = 65500 };

struct picture {
  int64_t width, height;
  int channels;    /* 3, or 1: grey */
  uint8_t *pixels; /* [height, width, channels] */
  size_t capacity; /* allocated bytes of `pixels` */
};

/* NEAP_UNSUPPORTED: the picture has more than PICTURE_MAX_SIDE pixels a side or 2^27 in total. */
neap_status picture_check_size(const char *path, int64_t width, int64_t height);

/* Makes room for the picture's pixels. */
neap_status picture_reserve(const char *path, struct picture *picture);

#endif
