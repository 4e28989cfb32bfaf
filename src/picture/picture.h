/* Reads pictures: PNG and JPEG files, and WebP, TIFF and GIF files where their libraries were built in,
 * become bytes of red, green and blue, or of grey. */
#ifndef NEAP_PICTURE_PICTURE_H
#define NEAP_PICTURE_PICTURE_H

#include "picture/picture_size.h"

struct picture_names {
  char text[96];
};

/* Returns true if files of that ending (".png", in any case) are read. */
bool picture_is_read(const char *ending);

/* Lists the endings that are read: ".png, .jpg". */
struct picture_names picture_endings(void);

/* Sets width, height, channels and orientation from the header of a file in memory: those of the picture held
 * upright, unless it is wanted as_stored. Its first bytes tell its kind; its name does not matter. Pixels are
 * unchanged. NEAP_BAD_FORMAT: no reader knows its kind, or it is damaged. NEAP_UNSUPPORTED: it is too large.
 * Messages name `path`. */
neap_status picture_measure(const char *path, const uint8_t *bytes, size_t count, struct picture *picture);

/* Decodes all of a file, as Pillow's exif_transpose and convert("RGB") do: it is held upright, alpha is left
 * out, 16 bits are cut to the upper 8 (of grey, too), a palette and CMYK become colours; grey stays one
 * channel. Pixels grow if needed. NEAP_BAD_FORMAT: it is damaged or cut short. */
neap_status picture_decode(const char *path, const uint8_t *bytes, size_t count, struct picture *picture);

/* Converts a picture of colours to grey, as Pillow's convert("L") does. */
void picture_to_grey(struct picture *picture);

void picture_free(struct picture *picture);

#endif
