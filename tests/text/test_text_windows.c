/* A text that is read in windows gives what it gives whole in memory: vocabularies, tokens and places of
 * errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/sources.h"
#include "testing.h"
#include "text/text_file.h"
#include "text/tokenizer.h"

enum { BYTES = 7 << 20, LENGTH = 64 };

static char path[] = "/tmp/neap-windows-XXXXXX";
static char *content;
static size_t length;

static uint32_t next_number(void) {
  static uint64_t state = 7;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

/* With what is left of code points on both sides. */
static void put_run(size_t at, char byte, size_t count) {
  while ((unsigned char)content[at - 1] >= 0x80) at--, count++;
  while ((unsigned char)content[at + count] >= 0x80) count++;
  memset(content + at, byte, count);
}

/* Lines of words, some of them empty; then, from 3 MiB to 6, a line alone, with white space in long runs and
 * a word of 100 KiB. */
static int make_text(void **state) {
  static const char *const words[] = {
      "sea", "t\xC3\xA4ler", "12", ", ", "   ", "\xE6\xBD\xAE\xE6\xB1\x90", "neap", "\t"};
  (void)state;
  content = malloc(BYTES + 64);
  if (content == NULL) return 1;
  while (length < BYTES) {
    const char *word = words[next_number() % 8];
    memcpy(content + length, word, strlen(word));
    length += strlen(word);
    const bool in_line = length > 3 << 20 && length < 6 << 20;
    content[length++] = !in_line && next_number() % 16 == 0 ? '\n' : ' ';
  }
  put_run(4 << 20, 'x', 100 << 10);
  put_run((5 << 20) - 20, ' ', 40);
  const int descriptor = mkstemp(path);
  const bool written = descriptor >= 0 && write(descriptor, content, length) == (ssize_t)length;
  close(descriptor);
  return written ? 0 : 1;
}

static int remove_text(void **state) {
  (void)state;
  unlink(path);
  free(content);
  return 0;
}

static void compare(const struct tokenizer *a, const struct tokenizer *b) {
  assert_int_equal(tokenizer_size(a), tokenizer_size(b));
  assert_int_equal(a->characters.count, b->characters.count);
  if (a->characters.count > 0)
    assert_memory_equal(a->characters.data, b->characters.data,
                        a->characters.count * sizeof *a->characters.data);
  struct token_ids ids[2] = {{0}};
  const struct text some = {.bytes = content, .length = 100000, .name = "some"};
  ASSERT_OK(tokenizer_encode(a, &some, &ids[0]));
  ASSERT_OK(tokenizer_encode(b, &some, &ids[1]));
  assert_int_equal(ids[0].count, ids[1].count);
  assert_memory_equal(ids[0].data, ids[1].data, ids[0].count * sizeof *ids[0].data);
  for (int i = 0; i < 2; i++) vector_free(&ids[i]);
}

static void test_vocabularies(void **state) {
  (void)state;
  const struct text whole = {.bytes = content, .length = length, .name = path};
  struct text file;
  struct tokenizer *made[2];
  ASSERT_OK(text_file_open(path, &file));
  assert_int_equal(file.length, length);
  ASSERT_OK(tokenizer_learn(&whole, 1, 300, &made[0]));
  ASSERT_OK(tokenizer_learn(&file, 1, 300, &made[1]));
  compare(made[0], made[1]);
  for (int i = 0; i < 2; i++) tokenizer_free(made[i]);
  ASSERT_OK(tokenizer_characters(&whole, 1, &made[0]));
  ASSERT_OK(tokenizer_characters(&file, 1, &made[1]));
  compare(made[0], made[1]);
  for (int i = 0; i < 2; i++) tokenizer_free(made[i]);
  text_file_close(&file);
}

/* Pieces end with the first line that makes them a MiB. */
static void encode_pieces(const struct tokenizer *tokenizer, size_t end, struct token_ids *ids) {
  for (size_t begin = 0, next; begin < end; begin = next) {
    next = begin + (1 << 20) < end ? begin + (1 << 20) : end;
    while (next < end && content[next - 1] != '\n') next++;
    const struct text piece = {.bytes = content + begin, .length = next - begin, .name = path};
    ASSERT_OK(tokenizer_encode(tokenizer, &piece, ids));
  }
}

/* The training records are windows of LENGTH tokens and the one that follows. */
static void test_tokens(void **state) {
  (void)state;
  static const char *const kinds[] = {"bytes", "characters", "300"};
  for (int k = 0; k < 3; k++) {
    char name[128];
    struct source source;
    struct task task = {.kind = NEAP_TASK_TOKENS, .length = LENGTH, .batch = 1};
    struct token_ids wanted = {0};
    snprintf(name, sizeof name, "text:%s,tokens=%s", path, kinds[k]);
    ASSERT_OK(sources_open(name, &task, &source));
    size_t end = (size_t)((double)length * 0.9);
    while (((unsigned char)content[end] & 0xC0) == 0x80) end--;
    encode_pieces(source.tokenizer, end, &wanted);
    assert_int_equal(wanted.count, source.tokens[SPLIT_TRAIN]);
    for (int64_t i = 0; i < source.records[SPLIT_TRAIN]; i++) {
      int32_t window[LENGTH + 1];
      void *fields[FIELD_LIMIT] = {window};
      int64_t lengths[FIELD_LIMIT];
      ASSERT_OK(source.read(&source, SPLIT_TRAIN, i, &(struct draw){0}, fields, lengths));
      assert_memory_equal(window, wanted.data + i * LENGTH, (size_t)lengths[0] * sizeof *window);
    }
    vector_free(&wanted);
    source_close(&source);
  }
}

/* What is not UTF-8 is named by its place, in the first window and in a later one, in the line that is longer
 * than a window. */
static void test_places(void **state) {
  (void)state;
  static const size_t places[] = {1000, (5 << 20) + 12345};
  for (int i = 0; i < 2; i++) {
    char message[256];
    const char kept = content[places[i]];
    struct tokenizer *tokenizer;
    struct text file;
    FILE *stream = fopen(path, "r+b");
    content[places[i]] = '\xFF';
    assert_non_null(stream);
    assert_int_equal(fseek(stream, (long)places[i], SEEK_SET), 0);
    fputc('\xFF', stream);
    fflush(stream);
    const struct text whole = {.bytes = content, .length = length, .name = path};
    assert_int_equal(tokenizer_characters(&whole, 1, &tokenizer), NEAP_BAD_FORMAT);
    snprintf(message, sizeof message, "%s", neap_error_message());
    ASSERT_OK(text_file_open(path, &file));
    assert_int_equal(tokenizer_characters(&file, 1, &tokenizer), NEAP_BAD_FORMAT);
    assert_string_equal(neap_error_message(), message);
    text_file_close(&file);
    content[places[i]] = kept;
    assert_int_equal(fseek(stream, (long)places[i], SEEK_SET), 0);
    fputc(kept, stream);
    assert_int_equal(fclose(stream), 0);
  }
}

int run_test_text_windows(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_vocabularies), cmocka_unit_test(test_tokens),
                                     cmocka_unit_test(test_places)};
  return cmocka_run_group_tests(tests, make_text, remove_text);
}
