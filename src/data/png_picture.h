/* PNG files in memory; libpng reads them. */
#ifndef NEAP_DATA_PNG_PICTURE_H
#define NEAP_DATA_PNG_PICTURE_H

#include "data/picture_size.h"

/* Reads the header, and with `whole` the pixels, as picture.h says. */
neap_status png_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                             struct picture *picture);

#endif
