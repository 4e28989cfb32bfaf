/* Files of pictures. One is decoded to pixels of the size that its header says, twice to the same, or
 * refused by a message that names it; where the header is refused so is the whole. */
#include <string.h>

#include "picture/picture.h"
#include "support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = "folder/picture";
  struct picture header = {0}, picture = {0}, again = {0};
  const neap_status measured = picture_measure(path, data, size, &header);
  if (measured != NEAP_OK) fuzz_check_refused(measured, path);
  if (measured == NEAP_OK && header.width * header.height > 1 << 22)
    return 0; /* for the time that it takes */
  const neap_status status = picture_decode(path, data, size, &picture);
  fuzz_taken = status == NEAP_OK;
  if (fuzz_taken) {
    CHECK(measured == NEAP_OK && picture.width == header.width && picture.height == header.height);
    CHECK(picture.channels == header.channels && (picture.channels == 1 || picture.channels == 3));
    const size_t bytes = (size_t)(picture.width * picture.height * picture.channels);
    CHECK(picture.capacity >= bytes);
    CHECK_OK(picture_decode(path, data, size, &again));
    CHECK(memcmp(picture.pixels, again.pixels, bytes) == 0);
    picture_to_grey(&again);
    CHECK(again.channels == 1);
  } else {
    CHECK(status == NEAP_BAD_FORMAT || status == NEAP_UNSUPPORTED);
    fuzz_check_refused(status, path);
  }
  picture_free(&picture);
  picture_free(&again);
  return 0;
}
