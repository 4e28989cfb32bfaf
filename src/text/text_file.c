#include "text/text_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop.h"
#include "text/words.h"

static neap_status read_whole(const char *path, int descriptor, uint64_t bytes, struct region *region,
                              struct text *out) {
  char *content = bytes <= SIZE_MAX ? region_alloc(region, (size_t)bytes, 1) : NULL;
  const char *name = region_string(region, path);
  RETURN_IF(content == NULL || name == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for its %llu bytes", path,
            (unsigned long long)bytes);
  *out = (struct text){.bytes = content, .length = (size_t)bytes, .name = name, .line = 1};
  return file_need_at(path, descriptor, 0, content, (size_t)bytes);
}

/* U+FEFF, which marks a file as UTF-8 and is not part of the text. */
static const char mark[] = "\xEF\xBB\xBF";

static void skip_mark(struct text *text) {
  const size_t length = sizeof mark - 1;
  if (text->length < length || memcmp(text->bytes, mark, length) != 0) return;
  text->bytes += length;
  text->length -= length;
  text->marked = true;
}

neap_status text_read(const char *path, bool need_utf8, struct region *region, struct text *out) {
  int descriptor;
  uint64_t bytes;
  TRY(file_open(path, &descriptor, &bytes));
  const neap_status status = read_whole(path, descriptor, bytes, region, out);
  close(descriptor);
  TRY(status);
  skip_mark(out);
  return need_utf8 ? utf8_check(out) : NEAP_OK;
}

/* ---- In windows ---- */

neap_status text_file_open(const char *path, struct text *out) {
  uint64_t bytes;
  char first[sizeof mark - 1];
  *out = (struct text){.name = path, .line = 1, .descriptor = -1};
  TRY(file_open(path, &out->descriptor, &bytes));
  RETURN_IF(bytes > SIZE_MAX, NEAP_TOO_LARGE, "%s: has %llu bytes", path, (unsigned long long)bytes);
  if (bytes >= sizeof first) TRY(file_need_at(path, out->descriptor, 0, first, sizeof first));
  out->marked = bytes >= sizeof first && memcmp(first, mark, sizeof first) == 0;
  out->first = out->marked ? sizeof first : 0;
  out->length = (size_t)(bytes - out->first);
  return NEAP_OK;
}

void text_file_close(struct text *text) {
  if (text->bytes == NULL && text->descriptor >= 0) close(text->descriptor);
  text->descriptor = -1;
}

neap_status text_byte(const struct text *text, size_t at, unsigned char *byte) {
  return file_need_at(text->name, text->descriptor, text->first + at, byte, 1);
}

/* The part of a text that is in memory. */
struct window {
  char *memory;
  size_t capacity, filled, read; /* bytes; read: of the text, so far */
};

/* Fills the window; if it is full, doubles its memory first. */
static neap_status read_on(struct window *w, const struct text *text) {
  static const size_t usual = 2 << 20;
  if (w->filled == w->capacity) {
    const size_t capacity = w->capacity > 0 ? 2 * w->capacity : usual;
    char *memory = capacity > w->capacity ? realloc(w->memory, capacity) : NULL;
    RETURN_IF(memory == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for %zu bytes without an end",
              text->name, capacity);
    w->memory = memory;
    w->capacity = capacity;
  }
  const size_t left = text->length - w->read, room = w->capacity - w->filled,
               count = left < room ? left : room;
  TRY(file_need_at(text->name, text->descriptor, text->first + w->read, w->memory + w->filled, count));
  w->filled += count;
  w->read += count;
  return NEAP_OK;
}

static neap_status walk_file(struct window *w, const struct text *text, text_taker *take, void *context,
                             struct text *at) {
  while (w->read < text->length) {
    size_t used = 0;
    TRY(stop_check());
    TRY(read_on(w, text));
    at->bytes = w->memory;
    at->length = w->filled;
    TRY(take(context, at, w->read == text->length, &used));
    text_skip(at, used);
    w->filled -= used;
    memmove(w->memory, w->memory + used, w->filled);
  }
  return NEAP_OK;
}

neap_status text_walk(const struct text *text, text_taker *take, void *context, int64_t *end) {
  struct text at = *text;
  struct window window = {0};
  neap_status status = NEAP_OK;
  if (text->bytes == NULL && text->length > 0) {
    status = walk_file(&window, text, take, context, &at);
    free(window.memory);
  } else if (text->length > 0) {
    size_t used = 0;
    status = take(context, text, true, &used);
    if (end != NULL) text_skip(&at, text->length);
  }
  if (end != NULL) *end = at.line;
  return status;
}

size_t text_whole_words(const struct text *window, bool last) {
  size_t at = 0;
  while (at < window->length) {
    const size_t size = word_length(window->bytes + at, window->length - at);
    if (!last && at + size + UTF8_MAX_BYTES > window->length) break;
    at += size;
  }
  return at;
}
