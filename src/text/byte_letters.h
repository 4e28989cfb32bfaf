/* The letters in which GPT-2's vocabulary writes bytes: a printing character of Latin-1 is itself, the other
 * 68 bytes are U+0100, U+0101, ... in their order. */
#ifndef NEAP_TEXT_BYTE_LETTERS_H
#define NEAP_TEXT_BYTE_LETTERS_H

#include <stdint.h>

static inline uint32_t letter_of_byte(unsigned char byte) {
  if (byte <= 32) return 0x100 + (uint32_t)byte;
  if (byte >= 127 && byte <= 160) return 0x100 + 33 + (uint32_t)(byte - 127);
  return byte == 173 ? 0x100 + 67 : byte;
}

/* Returns the byte of a letter; -1: none. */
static inline int byte_of_letter(uint32_t code) {
  if (code >= 0x100 && code < 0x100 + 33) return (int)(code - 0x100);
  if (code >= 0x100 + 33 && code < 0x100 + 67) return (int)(code - 0x100 - 33 + 127);
  if (code == 0x100 + 67) return 173;
  return code < 0x100 && letter_of_byte((unsigned char)code) == code ? (int)code : -1;
}

#endif
