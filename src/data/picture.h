/* Reads pictures: PNG and JPEG files become bytes of red, green and blue, or of grey. */
#ifndef NEAP_DATA_PICTURE_H
#define NEAP_DATA_PICTURE_H

#include "data/picture_size.h"

/* Sets width, height and channels from the header of a file in memory. Its first bytes tell its kind; its
 * name does not matter. Pixels are unchanged. NEAP_BAD_FORMAT: it is neither PNG nor JPEG, or damaged.
 * NEAP_UNSUPPORTED: it is too large, or would lose most of its precision (grey of 16 bits). Messages name
 * `path`. */
neap_status picture_measure(const char *path, const uint8_t *bytes, size_t count, struct picture *picture);

/* Decodes all of a file, as Pillow's convert("RGB") does: alpha is left out, 16 bits are cut to the upper 8,
 * a palette and CMYK become colours; grey stays one channel. Pixels grow if needed. NEAP_BAD_FORMAT: it is
 * damaged or cut short. */
neap_status picture_decode(const char *path, const uint8_t *bytes, size_t count, struct picture *picture);

/* Converts a picture of colours to grey, as Pillow's convert("L") does. */
void picture_to_grey(struct picture *picture);

void picture_free(struct picture *picture);

#endif
