/* Reads PNG files in memory by libpng. */
#ifndef NEAP_PICTURE_PNG_PICTURE_H
#define NEAP_PICTURE_PNG_PICTURE_H

#include "picture/picture_size.h"

/* Reads the header, and also the pixels if `whole`, as picture.h says. */
neap_status png_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                             struct picture *picture);

#endif
