#include "text/base64.h"

#include <stdint.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const unsigned char *bytes, size_t count, char *text) {
  for (size_t i = 0; i < count; i += 3) {
    const size_t rest = count - i;
    const uint32_t group = (uint32_t)bytes[i] << 16 | (rest > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                           (rest > 2 ? (uint32_t)bytes[i + 2] : 0);
    for (size_t k = 0; k < 4; k++) *text++ = k <= rest ? letters[group >> (18 - 6 * k) & 63] : '=';
  }
  *text = '\0';
}

bool base64_decode(const char *text, size_t length, unsigned char *bytes, size_t *count) {
  *count = 0;
  if (length % 4 != 0) return false;
  for (size_t i = 0; i < length; i += 4) {
    uint32_t group = 0;
    size_t digits = 4;
    while (i + 4 == length && digits > 2 && text[i + digits - 1] == '=') digits--;
    for (size_t k = 0; k < digits; k++) {
      const char *letter = text[i + k] != '\0' ? strchr(letters, text[i + k]) : NULL;
      if (letter == NULL) return false;
      group |= (uint32_t)(letter - letters) << (18 - 6 * k);
    }
    for (size_t k = 0; k + 1 < digits; k++) bytes[(*count)++] = (unsigned char)(group >> (16 - 8 * k));
  }
  return true;
}
