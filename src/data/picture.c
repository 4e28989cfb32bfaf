#include "data/picture.h"

#include <stdlib.h>
#include <string.h>

#include "data/jpeg_picture.h"
#include "data/orientation.h"
#include "data/png_picture.h"

/* Kinds of files, told by their first bytes. */
static const struct picture_row {
  const char *magic;
  size_t length;
  neap_status (*read)(const char *path, const uint8_t *bytes, size_t count, bool whole,
                      struct picture *picture);
} rows[] = {
    {"\x89PNG\r\n\x1a\n", 8, png_picture_read},
    {"\xff\xd8\xff", 3, jpeg_picture_read},
};

/* Reads a picture and holds it up, or gives the size that it then has. */
static neap_status read_upright(const struct picture_row *row, const char *path, const uint8_t *bytes,
                                size_t count, bool whole, struct picture *picture) {
  picture->orientation = 1;
  TRY(row->read(path, bytes, count, whole, picture));
  if (picture->as_stored) picture->orientation = 1;
  if (whole) return orientation_apply(path, picture->orientation, picture);
  if (!orientation_is_across(picture->orientation)) return NEAP_OK;
  const int64_t height = picture->height;
  picture->height = picture->width;
  picture->width = height;
  return NEAP_OK;
}

static neap_status read_picture(const char *path, const uint8_t *bytes, size_t count, bool whole,
                                struct picture *picture) {
  RETURN_IF(count == 0, NEAP_BAD_FORMAT, "%s: is empty; replace or remove it", path);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (count >= rows[i].length && memcmp(bytes, rows[i].magic, rows[i].length) == 0)
      return read_upright(&rows[i], path, bytes, count, whole, picture);
  return neap_fail(NEAP_BAD_FORMAT,
                   "%s: is neither PNG nor JPEG (its first byte is 0x%02x); convert, replace or remove it",
                   path, bytes[0]);
}

neap_status picture_measure(const char *path, const uint8_t *bytes, size_t count, struct picture *picture) {
  return read_picture(path, bytes, count, false, picture);
}

neap_status picture_decode(const char *path, const uint8_t *bytes, size_t count, struct picture *picture) {
  return read_picture(path, bytes, count, true, picture);
}

void picture_to_grey(struct picture *picture) {
  const int64_t count = picture->width * picture->height;
  if (picture->channels == 1) return;
  for (int64_t i = 0; i < count; i++) {
    const uint8_t *p = picture->pixels + 3 * i;
    picture->pixels[i] = (uint8_t)((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
  }
  picture->channels = 1;
}

void picture_free(struct picture *picture) {
  free(picture->pixels);
  free(picture->spare);
  *picture = (struct picture){0};
}
