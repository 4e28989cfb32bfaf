/* Text on its way to tokens, and where each of its bytes comes from. */
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
  const size_t *ends; /* [length]: the place in the original text behind what a byte means, rising; NULL:
                         nobody asks */
  size_t start;       /* where it begins there, if somebody asks */
  bool first;         /* it is the beginning of the original text */
};

/* A passage that is being made. */
struct passage_buffer {
  VECTOR(char) bytes;
  struct places ends;
  bool placed; /* whether ends are kept */
};

/* The bytes [from, to) of a passage. */
struct passage passage_part(const struct passage *passage, size_t from, size_t to);

/* The place behind the first `length` bytes of a passage; 0 where nobody asks. */
size_t passage_place(const struct passage *passage, size_t length);

/* What was made of `source`, valid until the buffer changes. */
struct passage passage_of(const struct passage_buffer *buffer, const struct passage *source);

/* Append bytes that mean what ends at a place; or a part of a passage; or a code point. */
neap_status passage_append(struct passage_buffer *buffer, const char *bytes, size_t length, size_t end);
neap_status passage_append_part(struct passage_buffer *buffer, const struct passage *passage, size_t from,
                                size_t to);
neap_status passage_append_code(struct passage_buffer *buffer, uint32_t code, size_t end);

void passage_clear(struct passage_buffer *buffer);
void passage_free(struct passage_buffer *buffer);

#endif
