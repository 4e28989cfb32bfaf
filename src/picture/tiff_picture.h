/* The first picture of TIFF files: see picture/picture.h. */
#ifndef NEAP_PICTURE_TIFF_PICTURE_H
#define NEAP_PICTURE_TIFF_PICTURE_H

#include "picture/picture_size.h"

/* Reads the header, or with `whole` the first picture. NEAP_UNSUPPORTED: its numbers are no colours of 8 or
 * 16 bits. */
neap_status tiff_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                              struct picture *picture);

#endif
