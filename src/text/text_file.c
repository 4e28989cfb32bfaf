#include "text/text_file.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"

static neap_status read_whole(const char *path, int descriptor, uint64_t bytes, struct region *region,
                              struct text *out) {
  char *content = bytes <= SIZE_MAX ? region_alloc(region, (size_t)bytes, 1) : NULL;
  const char *name = region_string(region, path);
  RETURN_IF(content == NULL || name == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for its %llu bytes", path,
            (unsigned long long)bytes);
  *out = (struct text){.bytes = content, .length = (size_t)bytes, .name = name, .line = 1};
  return file_need_at(path, descriptor, 0, content, (size_t)bytes);
}

/* The mark U+FEFF says that what follows is UTF-8, and is no text. */
static void skip_mark(struct text *text) {
  static const char mark[] = "\xEF\xBB\xBF";
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
