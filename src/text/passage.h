/* Text on its way to tokens, with the origin of each of its bytes. */
#ifndef NEAP_TEXT_PASSAGE_H
#define NEAP_TEXT_PASSAGE_H

#include "base/vector.h"

/* Places in a text, in bytes, a vector (base/vector.h). */
struct places {
  size_t *data;
  size_t count, capacity;
};

/* UTF-8, borrowed. */
struct passage {
  const char *bytes;
  size_t length;
  const size_t *ends; /* [length]: the end, in the original text, of the origin of each byte, rising; NULL:
                         not recorded */
  size_t start;       /* where it begins there, if recorded */
  bool first;         /* it is the beginning of the original text */
};

/* A passage that is being made. */
struct passage_buffer {
  VECTOR(char) bytes;
  struct places ends;
  bool placed; /* whether ends are kept */
  size_t most; /* bytes that it may have; 0: any number */
};

/* Returns the bytes that steps of a tokenizer may make of a text: 64 times its own and 64 KiB more. The
 * longest form of a character has 11 times its bytes; only replacements that feed each other make more. */
size_t text_bound(size_t length);

/* Fails with NEAP_TOO_LARGE. */
neap_status text_is_too_long(size_t most);

/* Returns the bytes [from, to) of a passage. */
struct passage passage_part(const struct passage *passage, size_t from, size_t to);

/* Returns the place after the first `length` bytes of a passage; 0 if not recorded. */
size_t passage_place(const struct passage *passage, size_t length);

/* Returns the passage that was made of `source`, valid until the buffer changes. */
struct passage passage_of(const struct passage_buffer *buffer, const struct passage *source);

/* Append bytes whose origin ends at a place; a part of a passage; a code point. */
neap_status passage_append(struct passage_buffer *buffer, const char *bytes, size_t length, size_t end);
neap_status passage_append_part(struct passage_buffer *buffer, const struct passage *passage, size_t from,
                                size_t to);
neap_status passage_append_code(struct passage_buffer *buffer, uint32_t code, size_t end);

void passage_clear(struct passage_buffer *buffer);
void passage_free(struct passage_buffer *buffer);

#endif
