#include "text/passage.h"

#include <string.h>

#include "text/utf8.h"

size_t passage_place(const struct passage *passage, size_t length) {
  if (passage->ends == NULL) return 0;
  return length == 0 ? passage->start : passage->ends[length - 1];
}

struct passage passage_part(const struct passage *passage, size_t from, size_t to) {
  return (struct passage){.bytes = passage->bytes + from,
                          .length = to - from,
                          .ends = passage->ends != NULL ? passage->ends + from : NULL,
                          .start = passage_place(passage, from),
                          .first = passage->first && from == 0};
}

struct passage passage_of(const struct passage_buffer *buffer, const struct passage *source) {
  return (struct passage){.bytes = buffer->bytes.data,
                          .length = buffer->bytes.count,
                          .ends = buffer->placed ? buffer->ends.data : NULL,
                          .start = source->start,
                          .first = source->first};
}

size_t text_bound(size_t length) {
  enum { TIMES = 64, MORE = 1 << 16 };
  return length < (SIZE_MAX - MORE) / TIMES ? TIMES * length + MORE : SIZE_MAX;
}

neap_status text_is_too_long(size_t most) {
  return neap_fail(
      NEAP_TOO_LARGE,
      "tokenizer: its steps make more than %zu bytes of a text, 64 times what it has; take out replacements "
      "that make texts longer and longer",
      most);
}

/* Makes room for more bytes. */
static neap_status grow(struct passage_buffer *buffer, size_t length) {
  size_t wanted;
  RETURN_IF(__builtin_add_overflow(buffer->bytes.count, length, &wanted), NEAP_OUT_OF_MEMORY,
            "out of memory for a text of %zu more bytes", length);
  if (buffer->most > 0 && wanted > buffer->most) return text_is_too_long(buffer->most);
  TRY(vector_reserve(&buffer->bytes, wanted));
  return buffer->placed ? vector_reserve(&buffer->ends, wanted) : NEAP_OK;
}

neap_status passage_append(struct passage_buffer *buffer, const char *bytes, size_t length, size_t end) {
  if (length == 0) return NEAP_OK;
  TRY(grow(buffer, length));
  memcpy(buffer->bytes.data + buffer->bytes.count, bytes, length);
  buffer->bytes.count += length;
  for (size_t i = 0; buffer->placed && i < length; i++) buffer->ends.data[buffer->ends.count++] = end;
  return NEAP_OK;
}

neap_status passage_append_part(struct passage_buffer *buffer, const struct passage *passage, size_t from,
                                size_t to) {
  const size_t length = to - from;
  if (length == 0) return NEAP_OK;
  TRY(grow(buffer, length));
  memcpy(buffer->bytes.data + buffer->bytes.count, passage->bytes + from, length);
  buffer->bytes.count += length;
  if (!buffer->placed) return NEAP_OK;
  memcpy(buffer->ends.data + buffer->ends.count, passage->ends + from, length * sizeof *passage->ends);
  buffer->ends.count += length;
  return NEAP_OK;
}

neap_status passage_append_code(struct passage_buffer *buffer, uint32_t code, size_t end) {
  char bytes[UTF8_MAX_BYTES];
  return passage_append(buffer, bytes, (size_t)utf8_write(code, bytes), end);
}

void passage_clear(struct passage_buffer *buffer) {
  buffer->bytes.count = buffer->ends.count = buffer->most = 0;
}

void passage_free(struct passage_buffer *buffer) {
  vector_free(&buffer->bytes);
  vector_free(&buffer->ends);
}
