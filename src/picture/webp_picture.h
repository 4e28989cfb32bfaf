/* WebP files: see picture/picture.h. */
#ifndef NEAP_PICTURE_WEBP_PICTURE_H
#define NEAP_PICTURE_WEBP_PICTURE_H

#include "picture/picture_size.h"

/* Reads the header, or with `whole` all of a file. NEAP_UNSUPPORTED: it is animated. */
neap_status webp_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                              struct picture *picture);

#endif
