/* Reads past the system's cache give the bytes of the file, and bring no more than was announced. */
#include "session_help.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/direct_file.h"
#include "base/random.h"

enum { PAGE = 4096, FILE_BYTES = 100000, BUFFER = 4 * PAGE };

static unsigned char byte_at(uint64_t i) { return (unsigned char)(i * 7 + i / 251); }

static int make_file(char *path) {
  unsigned char bytes[FILE_BYTES];
  const int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  for (uint64_t i = 0; i < FILE_BYTES; i++) bytes[i] = byte_at(i);
  assert_int_equal(write(descriptor, bytes, FILE_BYTES), FILE_BYTES);
  return descriptor;
}

static void test_reads(void **state) {
  (void)state;
  char path[] = "/tmp/neap-direct-XXXXXX";
  static unsigned char to[FILE_BYTES];
  const int descriptor = make_file(path);
  struct direct_buffer buffer;
  struct direct_file file;
  ASSERT_OK(direct_buffer_create(BUFFER, &buffer));
  for (int plain = 0; plain < 2; plain++) {
    ASSERT_OK(direct_file_open(path, descriptor, &buffer, &file));
    if (plain && file.direct >= 0) {
      close(file.direct);
      file.direct = -1;
    }
    for (uint64_t k = 0; k < 400; k++) {
      uint32_t word[4];
      random_philox(1, k, 0, word);
      const uint64_t bytes = 1 + random_below(word[0], k % 2 == 0 ? 60000 : 300),
                     at = random_below(word[1], FILE_BYTES - bytes + 1);
      if (k % 3 == 0) ASSERT_OK(direct_file_cover(&file, at, bytes, FILE_BYTES));
      memset(to, 0, bytes);
      ASSERT_OK((k % 5 == 0 ? direct_file_read_apart : direct_file_read)(&file, at, to, bytes));
      for (uint64_t i = 0; i < bytes; i++) assert_int_equal(to[i], byte_at(at + i));
    }
    expect_failure(direct_file_read(&file, FILE_BYTES - 10, to, 11), NEAP_BAD_FORMAT,
                   "cut while it was read");
    direct_file_close(&file);
  }
  ASSERT_OK(direct_file_open(path, descriptor, &buffer, &file));
  assert_int_equal(ftruncate(descriptor, FILE_BYTES / 2), 0);
  expect_failure(direct_file_read(&file, 0, to, 10), NEAP_BAD_FORMAT, "`resume`");
  direct_file_close(&file);
  ASSERT_OK(direct_file_open(path, descriptor, &buffer, &file));
  assert_int_equal(futimens(descriptor, (struct timespec[]){{.tv_sec = 1}, {.tv_sec = 1}}), 0);
  expect_failure(direct_file_read_apart(&file, 0, to, 10), NEAP_BAD_FORMAT, path);
  direct_file_close(&file);
  direct_buffer_free(&buffer);
  close(descriptor);
  unlink(path);
}

static void read_at(struct direct_file *file, uint64_t at, uint64_t bytes) {
  unsigned char to[BUFFER];
  ASSERT_OK(direct_file_read(file, at, to, bytes));
  for (uint64_t i = 0; i < bytes; i++) assert_int_equal(to[i], byte_at(at + i));
}

/* A read brings its own pages; where more was announced, the buffer is filled. */
static void test_bytes_brought(void **state) {
  (void)state;
  char path[] = "/tmp/neap-direct-XXXXXX";
  const int descriptor = make_file(path);
  struct direct_buffer buffer;
  struct direct_file file;
  ASSERT_OK(direct_buffer_create(BUFFER, &buffer));
  ASSERT_OK(direct_file_open(path, descriptor, &buffer, &file));
  read_at(&file, 2 * PAGE + 10, 100);
  assert_int_equal(buffer.total, PAGE);
  ASSERT_OK(direct_file_cover(&file, 8 * PAGE, PAGE, 20 * PAGE));
  assert_int_equal(buffer.total, PAGE + BUFFER);
  read_at(&file, 9 * PAGE, 3 * PAGE); /* is there */
  assert_int_equal(buffer.total, PAGE + BUFFER);
  read_at(&file, 14 * PAGE, PAGE);
  assert_int_equal(buffer.total, PAGE + 2 * BUFFER);
  const uint64_t before = buffer.total;
  for (uint64_t i = 0; i < 3; i++) { /* before what was announced, and behind it */
    read_at(&file, (2 * i + 1) * PAGE + 7, 20);
    read_at(&file, (20 + i) * PAGE + 7, 20);
  }
  assert_int_equal(buffer.total, before + 6 * PAGE);
  direct_file_close(&file);
  direct_buffer_free(&buffer);
  close(descriptor);
  unlink(path);
}

int run_test_direct_file(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reads),
      cmocka_unit_test(test_bytes_brought),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
