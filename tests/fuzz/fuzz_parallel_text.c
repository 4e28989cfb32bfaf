/* Folders of parallel text, "a" and "b" of one split in two languages. A folder is taken if this file, which
 * counts for itself, finds two files or four, as many lines in both languages, and none that is empty on one
 * side. What is taken is the same after it was written and read again. Else a message names the folder. */
#include <stdio.h>
#include <string.h>

#include "support.h"
#include "text/parallel_text.h"

enum { FILES = 4 };
static const char *const names[FILES] = {"a.de", "a.en", "b.de", "b.en"};

/* The line that begins at `at`, without its end; the next begins at `*next`. */
static struct fuzz_bytes line_at(struct fuzz_bytes part, size_t at, size_t *next) {
  size_t end = at;
  while (end < part.size && part.text[end] != '\n') end++;
  *next = end < part.size ? end + 1 : end;
  if (end < part.size && end > at && part.text[end - 1] == '\r') end--;
  return (struct fuzz_bytes){part.text + at, end - at};
}

static bool is_empty(struct fuzz_bytes line) {
  for (size_t i = 0; i < line.size; i++)
    if (line.text[i] != ' ' && line.text[i] != '\t') return false;
  return true;
}

static bool is_utf8(struct fuzz_bytes part) {
  return utf8_check(&(struct text){.bytes = part.text, .length = part.size, .name = "part"}) == NEAP_OK;
}

/* Adds the lines of two files to `*count`. */
static bool are_parallel(struct fuzz_bytes de, struct fuzz_bytes en, size_t *count) {
  if ((de.text == NULL) != (en.text == NULL)) return false;
  if (de.text == NULL) return true;
  size_t i = 0, k = 0;
  for (; i < de.size && k < en.size; ++*count)
    if (is_empty(line_at(de, i, &i)) != is_empty(line_at(en, k, &k))) return false;
  return i == de.size && k == en.size && is_utf8(de) && is_utf8(en);
}

static void write_side(const struct parallel_text *text, bool target, const char *path) {
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL);
  for (size_t i = 0; i < text->pairs.count; i++) {
    const struct line_pair *pair = &text->pairs.data[i];
    const struct text *line = target ? &pair->target : &pair->source;
    CHECK(line->length == 0 || fwrite(line->bytes, 1, line->length, file) == line->length);
    fputs("\r\n", file);
  }
  CHECK(fclose(file) == 0);
}

static bool same(const struct text *a, const struct text *b) {
  return a->length == b->length && (a->length == 0 || memcmp(a->bytes, b->bytes, a->length) == 0);
}

static void check_again(const struct parallel_text *text) {
  const char *folder = fuzz_folder("again");
  struct parallel_text again;
  write_side(text, false, fuzz_path("again/x.l1"));
  write_side(text, true, fuzz_path("again/x.l2"));
  CHECK_OK(parallel_text_read(folder, "x", "l1", "l2", &again));
  CHECK(again.pairs.count == text->pairs.count);
  for (size_t i = 0; i < text->pairs.count; i++) {
    const struct line_pair *was = &text->pairs.data[i], *is = &again.pairs.data[i];
    CHECK(same(&was->source, &is->source) && same(&was->target, &is->target));
    CHECK(is->source.line == (int64_t)i + 1 && is->target.line == (int64_t)i + 1);
  }
  parallel_text_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *folder = fuzz_folder("parallel");
  struct fuzz_bytes parts[FILES];
  struct parallel_text text;
  size_t count = 0;
  for (int i = 0; i < FILES; i++) parts[i] = fuzz_part(data, size, names[i]);
  fuzz_unpack(data, size, folder, names, FILES);
  const bool good = are_parallel(parts[0], parts[1], &count) && are_parallel(parts[2], parts[3], &count);
  const neap_status status = parallel_text_read(folder, "", "de", "en", &text);
  fuzz_taken = status == NEAP_OK;
  CHECK(fuzz_taken == (good && count > 0));
  if (fuzz_taken) {
    CHECK(text.pairs.count == count);
    check_again(&text);
  } else {
    CHECK(status == NEAP_BAD_FORMAT || status == NEAP_IO_FAILED);
    fuzz_check_refused(status, folder);
  }
  parallel_text_free(&text);
  return 0;
}
