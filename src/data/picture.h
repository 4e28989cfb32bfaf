/* Pictures: PNG and JPEG files as bytes of red, green and blue, or of grey. */
#ifndef NEAP_DATA_PICTURE_H
#define NEAP_DATA_PICTURE_H

#include "data/picture_size.h"

/* Sets width, height and channels by the header of a file in memory, which tells its kind by its first bytes;
 * its name does not matter. Pixels stay. NEAP_BAD_FORMAT: it is neither PNG nor JPEG, or damaged.
 * NEAP_UNSUPPORTED: it is too large, or of a kind that would lose most of its numbers (grey of 16 bits).
 * Messages name `path`. */
neap_status picture_measure(const char *path, const uint8_t *bytes, size_t count, struct picture *picture);

/* Decodes the whole, as Pillow's convert("RGB") does: alpha is left out, 16 bits are cut to the upper 8, a
 * palette and CMYK become colours; grey stays one channel. Pixels grow where they must. NEAP_BAD_FORMAT: it
 * is damaged or cut short. */
neap_status picture_decode(const char *path, const uint8_t *bytes, size_t count, struct picture *picture);

/* Makes a picture of colours grey, as Pillow's convert("L") does. */
void picture_to_grey(struct picture *picture);

void picture_free(struct picture *picture);

#endif
