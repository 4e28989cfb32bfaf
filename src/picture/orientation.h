/* Reads the orientation in which a camera was held, which it notes in the picture (EXIF, tag 0x0112). */
#ifndef NEAP_PICTURE_ORIENTATION_H
#define NEAP_PICTURE_ORIENTATION_H

#include "picture/picture_size.h"

/* Returns the orientation, 1 to 8, of a block of EXIF, which is a TIFF file without a picture. 1, as it is
 * stored: the block says none, or is damaged. */
int orientation_of_exif(const uint8_t *bytes, size_t count);

/* Returns true if upright height and width are those of the stored picture exchanged. */
bool orientation_is_across(int orientation);

/* Holds a decoded picture up, as Pillow's exif_transpose does; its spare memory grows if needed. */
neap_status orientation_apply(const char *path, int orientation, struct picture *picture);

#endif
