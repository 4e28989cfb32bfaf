/* The first picture of GIF files: see picture/picture.h. */
#ifndef NEAP_PICTURE_GIF_PICTURE_H
#define NEAP_PICTURE_GIF_PICTURE_H

#include "picture/picture_size.h"

/* Reads the header, or with `whole` the first picture, as Pillow does: what it does not cover has the
 * transparent colour, or else the first. */
neap_status gif_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                             struct picture *picture);

#endif
