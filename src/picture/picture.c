#include "picture/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "picture/gif_picture.h"
#include "picture/jpeg_picture.h"
#include "picture/orientation.h"
#include "picture/png_picture.h"
#include "picture/tiff_picture.h"
#include "picture/webp_picture.h"

/* The kinds of files that this build reads, each told by its first bytes. */
static const struct picture_row {
  const char *name, *magic;
  size_t length;
  const char *endings[5]; /* up to NULL */
  neap_status (*read)(const char *path, const uint8_t *bytes, size_t count, bool whole,
                      struct picture *picture);
} rows[] = {
    {"PNG", "\x89PNG\r\n\x1a\n", 8, {".png"}, png_picture_read},
    {"JPEG", "\xff\xd8\xff", 3, {".jpg", ".jpeg", ".jpe", ".jfif"}, jpeg_picture_read},
#ifdef NEAP_WEBP
    {"WebP", "RIFF", 4, {".webp"}, webp_picture_read},
#endif
#ifdef NEAP_TIFF
    {"TIFF", "II*\0", 4, {".tif", ".tiff"}, tiff_picture_read},
    {"TIFF", "MM\0*", 4, {NULL}, tiff_picture_read},
#endif
#ifdef NEAP_GIF
    {"GIF", "GIF8", 4, {".gif"}, gif_picture_read},
#endif
};
enum { ROWS = sizeof rows / sizeof *rows };

bool picture_is_read(const char *ending) {
  for (size_t i = 0; i < ROWS; i++)
    for (const char *const *e = rows[i].endings; *e != NULL; e++)
      if (strcasecmp(ending, *e) == 0) return true;
  return false;
}

struct picture_names picture_endings(void) {
  struct picture_names names = {""};
  size_t length = 0;
  for (size_t i = 0; i < ROWS; i++)
    for (const char *const *e = rows[i].endings; *e != NULL && length < sizeof names.text; e++)
      length += (size_t)snprintf(names.text + length, sizeof names.text - length, "%s%s",
                                 length > 0 ? ", " : "", *e);
  return names;
}

/* Lists "PNG, JPEG, WebP". */
static struct picture_names kinds(void) {
  struct picture_names names = {""};
  size_t length = 0;
  for (size_t i = 0; i < ROWS && length < sizeof names.text; i++)
    if (rows[i].endings[0] != NULL)
      length += (size_t)snprintf(names.text + length, sizeof names.text - length, "%s%s", i > 0 ? ", " : "",
                                 rows[i].name);
  return names;
}

/* Reads a picture and holds it up, or gives the size that it then has. */
static neap_status read_upright(const struct picture_row *row, const char *path, const uint8_t *bytes,
                                size_t count, bool whole, struct picture *picture) {
  picture->orientation = 1;
  picture->spare_bytes = 0;
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
  for (size_t i = 0; i < ROWS; i++)
    if (count >= rows[i].length && memcmp(bytes, rows[i].magic, rows[i].length) == 0)
      return read_upright(&rows[i], path, bytes, count, whole, picture);
  return neap_fail(
      NEAP_BAD_FORMAT,
      "%s: is of no kind that is read here (%s; its first byte is 0x%02x); convert, replace or remove it",
      path, kinds().text, bytes[0]);
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
