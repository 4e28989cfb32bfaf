#include "picture/webp_picture.h"

#include <string.h>
#include <webp/decode.h>

#include "picture/orientation.h"

static size_t read_size(const uint8_t *bytes) {
  return (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
}

/* Returns the orientation of the chunk of EXIF. */
static int find_orientation(const uint8_t *bytes, size_t count) {
  static const char mark[] = "Exif\0"; /* with two zeros, which some programs put before it */
  enum { FIRST = 12, HEAD = 8 };
  for (size_t at = FIRST; at <= count && count - at >= HEAD;) {
    const uint8_t *chunk = bytes + at + HEAD;
    const size_t left = count - at - HEAD;
    size_t size = read_size(bytes + at + 4);
    if (size > left) size = left;
    if (memcmp(bytes + at, "EXIF", 4) == 0) {
      const size_t skipped = size >= sizeof mark && memcmp(chunk, mark, sizeof mark) == 0 ? sizeof mark : 0;
      return orientation_of_exif(chunk + skipped, size - skipped);
    }
    at += HEAD + size + size % 2;
  }
  return 1;
}

neap_status webp_picture_read(const char *path, const uint8_t *bytes, size_t count, bool whole,
                              struct picture *picture) {
  WebPBitstreamFeatures about;
  RETURN_IF(WebPGetFeatures(bytes, count, &about) != VP8_STATUS_OK, NEAP_BAD_FORMAT,
            "%s: is a damaged WebP; replace or remove it", path);
  RETURN_IF(about.has_animation, NEAP_UNSUPPORTED,
            "%s: is an animated WebP; convert it to a picture that stands still", path);
  TRY(picture_check_size(path, about.width, about.height));
  picture->width = about.width;
  picture->height = about.height;
  picture->channels = 3;
  picture->orientation = find_orientation(bytes, count);
  if (!whole) return NEAP_OK;
  TRY(picture_reserve(path, picture));
  RETURN_IF(WebPDecodeRGBInto(bytes, count, picture->pixels, picture->capacity, 3 * about.width) == NULL,
            NEAP_BAD_FORMAT, "%s: is a damaged WebP; replace or remove it", path);
  return NEAP_OK;
}
