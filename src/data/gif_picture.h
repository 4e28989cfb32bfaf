/* The first picture of GIF files: see data/picture.h. */
#ifndef NEAP_DATA_GIF_PICTURE_H
#define NEAP_DATA_GIF_PICTURE_H

#include "data/picture_size.h"

/* Reads the header, or with `whole` the first picture, as Pillow does: what it does not cover has the
 * transparent colour, or else the first. */
neap_status gif_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                             struct picture *picture);

#endif
