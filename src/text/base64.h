/* Bytes as text (RFC 4648). */
#ifndef NEAP_TEXT_BASE64_H
#define NEAP_TEXT_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the text of `count` bytes, with the zero at its end. */
static inline size_t base64_room(size_t count) { return (count + 2) / 3 * 4 + 1; }

/* Writes base64_room(count) bytes. */
void base64_encode(const unsigned char *bytes, size_t count, char *text);

/* Writes at most 3 / 4 of `length` bytes, and gives their number. Returns false for a text that is not base64
 * with its padding. */
bool base64_decode(const char *text, size_t length, unsigned char *bytes, size_t *count);

#endif
