/* Text in UTF-8 (RFC 3629), and messages that name a place in it. */
#ifndef NEAP_TEXT_UTF8_H
#define NEAP_TEXT_UTF8_H

#include <stdint.h>

#include "base/status.h"

enum { UTF8_MAX_BYTES = 4, CODE_POINTS = 0x110000 };

/* Bytes of a file, all of them or a line. They are borrowed, need no 0 at their end and may be any bytes. If
 * `bytes` is NULL they are in an open file (text_file.h). */
struct text {
  const char *bytes;
  size_t length;
  const char *name; /* of the file, for messages */
  int64_t line;     /* of the file, where the text begins; the first is 1, and 0 also means 1 */
  int64_t column;   /* code points of that line before it */
  bool marked;      /* a byte-order mark before it was skipped */
  int descriptor;   /* of the file, if bytes is NULL; they begin at */
  uint64_t first;
};

/* Decodes the code point that `length` bytes, 1 or more, begin with. Returns the number of its bytes; 0: they
 * do not begin with UTF-8. Overlong forms, surrogates and values above U+10FFFF are not UTF-8. */
int utf8_decode(const char *bytes, size_t length, uint32_t *code);

/* Tests for a code point that UTF-8 can encode; and encodes it, returning the number of bytes. */
bool utf8_is_code_point(uint64_t code);
int utf8_write(uint32_t code, char bytes[UTF8_MAX_BYTES]);

/* Fails with NEAP_BAD_FORMAT if a byte is not UTF-8. The message names file, line and column of the first. */
neap_status utf8_check(const struct text *text);

/* Removes `bytes` bytes from the beginning of a text in memory, and advances its line and column. */
void text_skip(struct text *text, size_t bytes);

/* Fails with NEAP_BAD_FORMAT, "NAME: line L, column C: " and the message. Both count from 1; a column is a
 * code point, or a byte that belongs to none. */
neap_status text_bad(const struct text *text, size_t offset, const char *message);

#endif
