#include "picture/picture_size.h"

#include <stdlib.h>

neap_status picture_check_size(const char *path, int64_t width, int64_t height) {
  static const int64_t most = (int64_t)1 << 27;
  RETURN_IF(width < 1 || height < 1, NEAP_BAD_FORMAT, "%s: has no pixels", path);
  RETURN_IF(width > PICTURE_MAX_SIDE || height > PICTURE_MAX_SIDE || width * height > most, NEAP_UNSUPPORTED,
            "%s: is too large (got %lldx%lld); pictures have at most %d pixels a side and %lld in total; "
            "make it smaller",
            path, (long long)width, (long long)height, PICTURE_MAX_SIDE, (long long)most);
  return NEAP_OK;
}

/* Makes a block of memory at least as large. */
static neap_status grow(const char *path, size_t bytes, uint8_t **block, size_t *capacity) {
  if (bytes <= *capacity) return NEAP_OK;
  uint8_t *grown = realloc(*block, bytes);
  RETURN_IF(grown == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for %zu bytes of pixels", path, bytes);
  *block = grown;
  *capacity = bytes;
  return NEAP_OK;
}

neap_status picture_reserve(const char *path, struct picture *picture) {
  const size_t bytes = (size_t)(picture->width * picture->height * picture->channels);
  return grow(path, bytes, &picture->pixels, &picture->capacity);
}

neap_status picture_reserve_spare(const char *path, size_t bytes, struct picture *picture) {
  return grow(path, bytes, &picture->spare, &picture->spare_capacity);
}
