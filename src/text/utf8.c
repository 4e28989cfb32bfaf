#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

bool utf8_is_code_point(uint64_t code) { return code < CODE_POINTS && (code < 0xD800 || code > 0xDFFF); }

int utf8_decode(const char *bytes, size_t length, uint32_t *code) {
  /* The least code point of each length: lower ones have a shorter form. */
  static const uint32_t least[UTF8_MAX_BYTES + 1] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned char first = (unsigned char)bytes[0];
  if (first < 0x80) {
    *code = first;
    return 1;
  }
  const int size = first >= 0xF8 ? 0 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 0;
  if (size == 0 || length < (size_t)size) return 0;
  uint32_t all = first & (0x7Fu >> size);
  for (int i = 1; i < size; i++) {
    const unsigned char byte = (unsigned char)bytes[i];
    if (byte >> 6 != 2) return 0;
    all = all << 6 | (byte & 0x3F);
  }
  if (all < least[size] || !utf8_is_code_point(all)) return 0;
  *code = all;
  return size;
}

int utf8_write(uint32_t code, char bytes[UTF8_MAX_BYTES]) {
  const int size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  if (size == 1) {
    bytes[0] = (char)code;
    return 1;
  }
  for (int i = size - 1; i > 0; i--, code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3F));
  bytes[0] = (char)((0xF00 >> size & 0xF0) | code);
  return size;
}

neap_status utf8_check(const struct text *text) {
  uint32_t code;
  int size;
  for (size_t at = 0; at < text->length; at += (size_t)size) {
    size = utf8_decode(text->bytes + at, text->length - at, &code);
    if (size > 0) continue;
    char message[64];
    snprintf(message, sizeof message, "byte 0x%02X is not UTF-8", (unsigned char)text->bytes[at]);
    return text_bad(text, at, message);
  }
  return NEAP_OK;
}

void text_skip(struct text *text, size_t bytes) {
  size_t at = 0;
  text->line = text->line > 0 ? text->line : 1;
  for (const char *end; (end = memchr(text->bytes + at, '\n', bytes - at)) != NULL;) {
    at = (size_t)(end - text->bytes) + 1;
    text->line++;
    text->column = 0;
  }
  while (at < bytes) {
    uint32_t code;
    const int size = utf8_decode(text->bytes + at, text->length - at, &code);
    text->column++;
    at += size > 0 ? (size_t)size : 1;
  }
  text->bytes += bytes;
  text->length -= bytes;
}

neap_status text_bad(const struct text *text, size_t offset, const char *message) {
  struct text place = *text;
  text_skip(&place, offset);
  return neap_fail(NEAP_BAD_FORMAT, "%s: line %lld, column %lld: %s", text->name, (long long)place.line,
                   (long long)place.column + 1, message);
}
