#include "text/words.h"

#include "text/utf8.h"

enum word_class { WHITE_SPACE, DIGIT, PUNCTUATION, LETTER };

/* Blocks beyond ASCII that have hardly any letters. */
static const struct {
  uint32_t first, last;
} punctuation[] = {
    {0x0080, 0x00BF},   /* controls and punctuation of Latin-1 */
    {0x2000, 0x2BFF},   /* from General Punctuation to Miscellaneous Symbols and Arrows */
    {0x2E00, 0x2E7F},   /* Supplemental Punctuation */
    {0x3000, 0x303F},   /* CJK Symbols and Punctuation */
    {0xFE10, 0xFE6F},   /* forms of punctuation, half marks */
    {0xFF00, 0xFF0F},   /* full width: from ! to / */
    {0x1F000, 0x1FAFF}, /* from Mahjong Tiles to emoji */
};

static enum word_class class_of_ascii(unsigned char byte) {
  if (byte == ' ' || (byte >= '\t' && byte <= '\r')) return WHITE_SPACE;
  if (byte >= '0' && byte <= '9') return DIGIT;
  return (byte | 32) >= 'a' && (byte | 32) <= 'z' ? LETTER : PUNCTUATION;
}

/* Returns the class of the first character, and its number of bytes. */
static enum word_class class_at(const char *bytes, size_t length, size_t *size) {
  *size = 1;
  const unsigned char first = (unsigned char)bytes[0];
  if (first < 0x80) return class_of_ascii(first);
  uint32_t code;
  const int found = utf8_decode(bytes, length, &code);
  if (found == 0) return LETTER;
  *size = (size_t)found;
  for (size_t i = 0; i < sizeof punctuation / sizeof *punctuation; i++)
    if (code >= punctuation[i].first && code <= punctuation[i].last) return PUNCTUATION;
  return LETTER;
}

size_t word_length(const char *bytes, size_t length) {
  size_t size;
  enum word_class class = class_at(bytes, length, &size);
  size_t at = size;
  if (bytes[0] == ' ' && length > 1) {
    class = class_at(bytes + 1, length - 1, &size);
    at = 1 + size;
  }
  while (at < length && class_at(bytes + at, length - at, &size) == class) at += size;
  const bool leaves_space = class == WHITE_SPACE && at < length && at > 1 && bytes[at - 1] == ' ';
  return leaves_space ? at - 1 : at;
}
