/* WebP files: see data/picture.h. */
#ifndef NEAP_DATA_WEBP_PICTURE_H
#define NEAP_DATA_WEBP_PICTURE_H

#include "data/picture_size.h"

/* Reads the header, or with `whole` all of a file. NEAP_UNSUPPORTED: it is animated. */
neap_status webp_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                              struct picture *picture);

#endif
