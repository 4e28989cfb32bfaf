#include "picture/orientation.h"

#include <string.h>

/* ---- The note ---- */

/* A TIFF file in memory. */
struct tiff {
  const uint8_t *bytes;
  size_t count;
  bool big_endian;
};

/* Reads an integer of 2 or 4 bytes; false: it lies outside. */
static bool read_integer(const struct tiff *t, size_t at, size_t size, uint32_t *value) {
  if (at > t->count || t->count - at < size) return false;
  *value = 0;
  for (size_t i = 0; i < size; i++) *value = *value << 8 | t->bytes[at + (t->big_endian ? i : size - 1 - i)];
  return true;
}

int orientation_of_exif(const uint8_t *bytes, size_t count) {
  enum { TAG = 0x0112, SHORT = 3, ENTRY = 12 };
  struct tiff t = {bytes, count, false};
  uint32_t magic, first, entries, tag, type, value;
  if (count < 8 || (memcmp(bytes, "II", 2) != 0 && memcmp(bytes, "MM", 2) != 0)) return 1;
  t.big_endian = *bytes == 'M';
  if (!read_integer(&t, 2, 2, &magic) || magic != 42 || !read_integer(&t, 4, 4, &first)) return 1;
  if (!read_integer(&t, first, 2, &entries)) return 1;
  for (size_t i = 0; i < entries; i++) {
    const size_t at = (size_t)first + 2 + i * ENTRY;
    if (!read_integer(&t, at, 2, &tag)) return 1;
    if (tag != TAG) continue;
    const bool good =
        read_integer(&t, at + 2, 2, &type) && type == SHORT && read_integer(&t, at + 8, 2, &value);
    return good && value >= 1 && value <= 8 ? (int)value : 1;
  }
  return 1;
}

/* ---- Turning ---- */

/* The places that pixels come from, by orientation: rows and columns may be exchanged, and each counted from
 * its end. */
static const struct turn {
  bool across, up, left;
} turns[9] = {[2] = {false, false, true}, [3] = {false, true, true}, [4] = {false, true, false},
              [5] = {true, false, false}, [6] = {true, true, false}, [7] = {true, true, true},
              [8] = {true, false, true}};

bool orientation_is_across(int orientation) { return turns[orientation].across; }

neap_status orientation_apply(const char *path, int orientation, struct picture *picture) {
  const struct turn turn = turns[orientation];
  const int64_t height = picture->height, width = picture->width;
  const size_t channels = (size_t)picture->channels;
  if (orientation == 1) return NEAP_OK;
  TRY(picture_reserve_spare(path, (size_t)(height * width) * channels, picture));
  const int64_t rows = turn.across ? width : height, columns = turn.across ? height : width;
  uint8_t *to = picture->spare;
  for (int64_t y = 0; y < rows; y++)
    for (int64_t x = 0; x < columns; x++, to += channels) {
      const int64_t row = turn.across ? x : y, column = turn.across ? y : x;
      const int64_t from =
          (turn.up ? height - 1 - row : row) * width + (turn.left ? width - 1 - column : column);
      memcpy(to, picture->pixels + (size_t)from * channels, channels);
    }
  uint8_t *const pixels = picture->pixels;
  const size_t capacity = picture->capacity;
  picture->pixels = picture->spare, picture->spare = pixels;
  picture->capacity = picture->spare_capacity, picture->spare_capacity = capacity;
  picture->height = rows, picture->width = columns;
  return NEAP_OK;
}
