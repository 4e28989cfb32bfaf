/* Files to train on: what was written by the test's own hand is read, window by window too; every kind of
 * damage is refused with its place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "testing.h"
#include "text/parallel_text.h"
#include "text/text_file.h"
#include "text/token_file.h"

static char folder[] = "/tmp/neap-corpus-XXXXXX";

/* A path in the folder; valid for the next three calls. */
static const char *in_folder(const char *name) {
  static char paths[4][128];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static const char *write_bytes(const char *name, const void *bytes, size_t count) {
  const char *path = in_folder(name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  assert_int_equal(fclose(file), 0);
  return path;
}

static const char *write_text(const char *name, const char *text) {
  return write_bytes(name, text, strlen(text));
}

static void assert_says(const char *what) {
  if (strstr(neap_error_message(), what) == NULL) fail_msg("'%s' is not in: %s", what, neap_error_message());
}

/* ---- Text ---- */

static void test_text(void **state) {
  (void)state;
  struct region region = {0};
  struct text text;
  ASSERT_OK(text_read(write_text("a.txt", "wei\xC3\x9F\n\xFF"), false, &region, &text));
  assert_int_equal(text.length, 7);
  assert_memory_equal(text.bytes, "wei\xC3\x9F\n\xFF", 7);
  assert_string_equal(text.name, in_folder("a.txt"));
  assert_int_equal(text_read(in_folder("a.txt"), true, &region, &text), NEAP_BAD_FORMAT);
  assert_says("a.txt: line 2, column 1: byte 0xFF");
  ASSERT_OK(text_read(write_text("a.txt", ""), true, &region, &text));
  assert_int_equal(text.length, 0);
  assert_false(text.marked);
  ASSERT_OK(text_read(write_text("a.txt", "\xEF\xBB\xBFx\n"), true, &region, &text));
  assert_true(text.marked);
  assert_int_equal(text.length, 2);
  assert_memory_equal(text.bytes, "x\n", 2);
  assert_int_equal(text_read(in_folder("none"), true, &region, &text), NEAP_IO_FAILED);
  assert_says("none");
  assert_int_equal(text_read(folder, true, &region, &text), NEAP_IO_FAILED);
  assert_says("not a regular file");
  region_free(&region);
}

/* ---- Files of ids ---- */

enum { IDS = 50000 };

static size_t put_id(unsigned char *bytes, enum token_type type, int64_t id) {
  static const size_t sizes[] = {[TOKEN_U8] = 1, [TOKEN_U16] = 2, [TOKEN_I32] = 4, [TOKEN_I64] = 8};
  for (size_t i = 0; i < sizes[type]; i++) bytes[i] = (unsigned char)((uint64_t)id >> 8 * i);
  return sizes[type];
}

/* The prefix and dictionary of a .npy file; gives their bytes. */
static size_t put_header(unsigned char *bytes, int major, const char *dictionary) {
  const size_t length = strlen(dictionary), at = major == 1 ? 10 : 12;
  memcpy(bytes, "\x93NUMPY", 6);
  bytes[6] = (unsigned char)major, bytes[7] = 0;
  for (size_t i = 8; i < at; i++) bytes[i] = (unsigned char)(length >> 8 * (i - 8));
  memcpy(bytes + at, dictionary, length);
  return at + length;
}

static void check_ids(const char *path, enum token_type type, const int32_t *ids, int64_t count) {
  struct token_file file;
  static int32_t got[IDS];
  int32_t largest;
  int64_t place;
  uint32_t random = 9;
  ASSERT_OK(token_file_open(path, type, &file));
  assert_int_equal(file.count, count);
  ASSERT_OK(token_file_read(&file, 0, count, got));
  assert_memory_equal(got, ids, (size_t)count * sizeof *ids);
  for (int i = 0; i < 50; i++) {
    const int64_t first = random_below(random_next(&random), (uint64_t)count + 1);
    const int64_t some = random_below(random_next(&random), (uint64_t)(count - first) + 1);
    ASSERT_OK(token_file_read(&file, first, some, got));
    assert_memory_equal(got, ids + first, (size_t)some * sizeof *ids);
  }
  ASSERT_OK(token_file_largest(&file, &largest, &place));
  for (int64_t i = 0; i < count; i++) assert_true(i < place ? ids[i] < largest : ids[i] <= largest);
  assert_int_equal(ids[place], largest);
  assert_int_equal(token_file_read(&file, -1, 1, got), NEAP_INVALID_ARGUMENT);
  assert_int_equal(token_file_read(&file, 0, -1, got), NEAP_INVALID_ARGUMENT);
  assert_int_equal(token_file_read(&file, count, 1, got), NEAP_INVALID_ARGUMENT);
  assert_int_equal(token_file_read(&file, INT64_MAX, INT64_MAX, got), NEAP_INVALID_ARGUMENT);
  assert_int_equal(token_file_read(&file, 1, INT64_MAX, got), NEAP_INVALID_ARGUMENT);
  token_file_close(&file);
}

static void test_ids(void **state) {
  (void)state;
  static unsigned char bytes[8 * IDS + 256];
  static int32_t ids[IDS];
  static const char *const types[] = {
      [TOKEN_U8] = "|u1", [TOKEN_U16] = "<u2", [TOKEN_I32] = "<i4", [TOKEN_I64] = "<i8"};
  static const uint64_t bounds[] = {
      [TOKEN_U8] = 1 << 8, [TOKEN_U16] = 1 << 16, [TOKEN_I32] = 1u << 31, [TOKEN_I64] = 1u << 31};
  static const int64_t counts[] = {1, 2, 4096, IDS};
  uint32_t random = 3;
  for (enum token_type type = TOKEN_U8; type <= TOKEN_I64; type++)
    for (int k = 0; k < 4; k++) {
      size_t size = 0;
      char dictionary[200];
      for (int64_t i = 0; i < counts[k]; i++) {
        ids[i] = (int32_t)random_below(random_next(&random), bounds[type]);
        size += put_id(bytes + size, type, ids[i]);
      }
      check_ids(write_bytes("a.bin", bytes, size), type, ids, counts[k]);
      snprintf(dictionary, sizeof dictionary,
               "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,), }          \n", types[type],
               (long long)counts[k]);
      for (int major = 1; major <= 3; major++) {
        size_t at = put_header(bytes, major, dictionary);
        for (int64_t i = 0; i < counts[k]; i++) at += put_id(bytes + at, type, ids[i]);
        check_ids(write_bytes("a.npy", bytes, at), TOKEN_I64, ids, counts[k]);
      }
    }
}

static void expect_refused(const char *path, enum token_type type, neap_status wanted, const char *says) {
  struct token_file file;
  assert_int_equal(token_file_open(path, type, &file), wanted);
  assert_says(path);
  assert_says(says);
  token_file_close(&file);
}

static void test_bad_headers(void **state) {
  (void)state;
  unsigned char bytes[300] = {0};
  static const struct {
    const char *dictionary;
    neap_status status; /* of a file with three ids of two bytes */
    const char *says;
  } cases[] = {
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }\n", NEAP_OK, ""},
      {"{ \"shape\" :( 3 , ),\n\"descr\":\"<u2\",'fortran_order':False}", NEAP_OK, ""},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }", NEAP_BAD_FORMAT, "has 3 ids"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }", NEAP_BAD_FORMAT, "says 2"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", NEAP_BAD_FORMAT,
       "not a multiple of the 4 bytes"},
      {"{'descr': '>u2', 'fortran_order': False, 'shape': (3,), }", NEAP_UNSUPPORTED, "'>u2'"},
      {"{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }", NEAP_UNSUPPORTED, "'<f2'"},
      {"{'descr': '<u2', 'fortran_order': True, 'shape': (3,), }", NEAP_UNSUPPORTED, "Fortran"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (), }", NEAP_UNSUPPORTED, "rank 0"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (1, 3), }", NEAP_UNSUPPORTED, "rank 2"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3), }", NEAP_BAD_FORMAT, "its header"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (-3,), }", NEAP_BAD_FORMAT, "its header"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,), }", NEAP_BAD_FORMAT,
       "its header"},
      {"{'descr': '<u2', 'fortran_order': False}", NEAP_BAD_FORMAT, "its header"},
      {"{'descr': '<u2', 'descr': '<u2', 'fortran_order': False, 'shape': (3,)}", NEAP_BAD_FORMAT,
       "its header"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,), 'x': 1}", NEAP_BAD_FORMAT, "its header"},
      {"{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (3,)}", NEAP_BAD_FORMAT, "its header"},
      {"{'descr': '<u2', 'fortran_order': 0, 'shape': (3,)}", NEAP_BAD_FORMAT, "its header"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,)} x", NEAP_BAD_FORMAT, "its header"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,)", NEAP_BAD_FORMAT, "its header"},
      {"", NEAP_BAD_FORMAT, "its header"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    memset(bytes, 0, sizeof bytes);
    const char *path = write_bytes("b.npy", bytes, put_header(bytes, 1, cases[i].dictionary) + 6);
    if (cases[i].status != NEAP_OK) {
      expect_refused(path, TOKEN_U16, cases[i].status, cases[i].says);
      continue;
    }
    check_ids(path, TOKEN_U16, (int32_t[]){0, 0, 0}, 3);
  }
}

static void test_bad_token_files(void **state) {
  (void)state;
  unsigned char bytes[300];
  const char *good = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,)}";
  const size_t size = put_header(bytes, 1, good);
  bytes[0] = 'x';
  expect_refused(write_bytes("c.npy", bytes, size + 4), TOKEN_U8, NEAP_BAD_FORMAT, "NumPy");
  put_header(bytes, 4, good);
  expect_refused(write_bytes("c.npy", bytes, size + 4), TOKEN_U8, NEAP_UNSUPPORTED, "4.0");
  put_header(bytes, 1, good);
  for (size_t cut = 0; cut < size + 4; cut++)
    expect_refused(write_bytes("c.npy", bytes, cut), TOKEN_U8, NEAP_BAD_FORMAT, "");
  bytes[9] = 0xFF; /* a header of 65 KB */
  expect_refused(write_bytes("c.npy", bytes, size + 4), TOKEN_U8, NEAP_BAD_FORMAT, "the limit is 10000");
  expect_refused(write_bytes("c.bin", "123", 3), TOKEN_U16, NEAP_BAD_FORMAT, "3 bytes");
  expect_refused(write_bytes("c.bin", "", 0), TOKEN_U16, NEAP_BAD_FORMAT, "no ids");
  expect_refused(in_folder("none.bin"), TOKEN_U16, NEAP_IO_FAILED, "none.bin");
  expect_refused(folder, TOKEN_U16, NEAP_IO_FAILED, "not a regular file");
}

/* Wrong ids have their place named; a file that was cut short after it was opened is refused. */
static void test_wrong_ids(void **state) {
  (void)state;
  struct token_file file;
  int32_t ids[3], largest;
  int64_t place;
  const int32_t narrow[] = {4, 5, -6};
  const int64_t wide[] = {4, INT64_C(1) << 31, 6};
  ASSERT_OK(token_file_open(write_bytes("d.bin", narrow, sizeof narrow), TOKEN_I32, &file));
  ASSERT_OK(token_file_read(&file, 0, 2, ids));
  assert_int_equal(token_file_read(&file, 1, 2, ids), NEAP_BAD_FORMAT);
  assert_says("id -6 at place 2");
  assert_int_equal(token_file_largest(&file, &largest, &place), NEAP_BAD_FORMAT);
  assert_int_equal(truncate(in_folder("d.bin"), 4), 0);
  assert_int_equal(token_file_read(&file, 0, 2, ids), NEAP_BAD_FORMAT);
  assert_says("d.bin");
  token_file_close(&file);
  ASSERT_OK(token_file_open(write_bytes("d.bin", wide, sizeof wide), TOKEN_I64, &file));
  assert_int_equal(token_file_read(&file, 0, 3, ids), NEAP_BAD_FORMAT);
  assert_says("id 2147483648 at place 1");
  token_file_close(&file);
}

/* ---- Parallel text ---- */

static void assert_line(const struct text *line, const char *wanted, const char *name, int64_t number) {
  assert_int_equal(line->length, strlen(wanted));
  assert_memory_equal(line->bytes, wanted, line->length);
  assert_string_equal(line->name, in_folder(name));
  assert_int_equal(line->line, number);
}

static void test_parallel(void **state) {
  (void)state;
  struct parallel_text text;
  write_text("train.b.de", "drei\n\nvier");
  write_text("train.b.en", "three\n \t\nfour\n");
  write_text("train.a.de-en.de", "eins\r\nzw\xC3\xB6lf\r\n");
  write_text("train.a.de-en.en", "one\r\ntwelve");
  write_text("val.de", "nein\n");
  write_text("train.c.fr", "non\n");
  ASSERT_OK(parallel_text_read(folder, "train", "de", "en", &text));
  assert_int_equal(text.pairs.count, 5);
  const struct line_pair *pairs = text.pairs.data;
  assert_line(&pairs[0].source, "eins", "train.a.de-en.de", 1);
  assert_line(&pairs[0].target, "one", "train.a.de-en.en", 1);
  assert_line(&pairs[1].source, "zw\xC3\xB6lf", "train.a.de-en.de", 2);
  assert_line(&pairs[1].target, "twelve", "train.a.de-en.en", 2);
  assert_line(&pairs[2].source, "drei", "train.b.de", 1);
  assert_line(&pairs[3].target, " \t", "train.b.en", 2);
  assert_line(&pairs[4].source, "vier", "train.b.de", 3);
  assert_line(&pairs[4].target, "four", "train.b.en", 3);
  parallel_text_free(&text);
  ASSERT_OK(parallel_text_read(folder, "train.b", "en", "de", &text));
  assert_int_equal(text.pairs.count, 3);
  assert_line(&text.pairs.data[0].source, "three", "train.b.en", 1);
  parallel_text_free(&text);
}

static void expect_no_pairs(const char *split, neap_status wanted, const char *says) {
  struct parallel_text text;
  assert_int_equal(parallel_text_read(folder, split, "de", "en", &text), wanted);
  assert_says(says);
  parallel_text_free(&text);
}

static void test_bad_parallel(void **state) {
  (void)state;
  struct parallel_text text;
  static const struct {
    const char *de, *en, *says;
  } cases[] = {
      {"a\nb\nc\n", "a\nb\n", "x.en: ends before line 3, which "},
      {"a\nb", "a\nb\n\n", "x.de: ends before line 3, which "},
      {"", "a", "x.de: ends before line 1"},
      {"a\n\nc\n", "a\nb\nc\n", "x.de: line 2 is empty, but not line 2 of "},
      {"a\nb\n", "a\n  \n", "x.en: line 2 is empty, but not line 2 of "},
      {"a\nb \xE4\n", "a\nb\n", "x.de: line 2, column 3: byte 0xE4"},
      {"", "", "no lines"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_text("x.de", cases[i].de);
    write_text("x.en", cases[i].en);
    expect_no_pairs("x", NEAP_BAD_FORMAT, cases[i].says);
    assert_says(folder);
  }
  expect_no_pairs("y", NEAP_IO_FAILED, "has no files y*.de and y*.en");
  write_text("y1.de", "a");
  expect_no_pairs("y", NEAP_BAD_FORMAT, "y1.de: its partner y1.en is missing");
  write_text("y0.en", "a");
  expect_no_pairs("y", NEAP_BAD_FORMAT, "y0.en: its partner y0.de is missing");
  write_text("y0.de", "a");
  expect_no_pairs("y", NEAP_BAD_FORMAT, "y1.de: its partner y1.en is missing");
  assert_int_equal(parallel_text_read(folder, "x", "de", "de", &text), NEAP_INVALID_ARGUMENT);
  parallel_text_free(&text);
  assert_int_equal(parallel_text_read(in_folder("none"), "x", "de", "en", &text), NEAP_IO_FAILED);
  parallel_text_free(&text);
}

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  static const char *const names[] = {"a.txt",
                                      "a.bin",
                                      "a.npy",
                                      "b.npy",
                                      "c.npy",
                                      "c.bin",
                                      "d.bin",
                                      "train.b.de",
                                      "val.de",
                                      "x.de",
                                      "x.en",
                                      "train.b.en",
                                      "train.c.fr",
                                      "y0.de",
                                      "y0.en",
                                      "y1.de",
                                      "train.a.de-en.de",
                                      "train.a.de-en.en"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
  return rmdir(folder);
}

int run_test_corpus(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text),         cmocka_unit_test(test_ids),
      cmocka_unit_test(test_bad_headers),  cmocka_unit_test(test_bad_token_files),
      cmocka_unit_test(test_wrong_ids),    cmocka_unit_test(test_parallel),
      cmocka_unit_test(test_bad_parallel),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
