#include <stdlib.h>
#include <string.h>

#include "base/memory_status.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/sha256_blocks.h"
#include "testing.h"

static void expect_digest(const char *message, size_t bytes, const char *digest) {
  /* Whole, byte by byte, and in uneven pieces. */
  for (size_t piece = 1; piece <= 200; piece += piece == 1 ? 62 : 7) {
    struct sha256 hash;
    char text[65];
    sha256_start(&hash);
    for (size_t at = 0; at < bytes; at += piece)
      sha256_feed(&hash, message + at, bytes - at < piece ? bytes - at : piece);
    sha256_finish(&hash, text);
    assert_string_equal(text, digest);
  }
}

/* The examples of FIPS 180-4 and NIST's test vectors. */
static void test_vectors(void **state) {
  (void)state;
  expect_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  expect_digest("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                112, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void test_million(void **state) {
  (void)state;
  struct sha256 hash;
  char piece[1000], text[65];
  memset(piece, 'a', sizeof piece);
  sha256_start(&hash);
  for (int i = 0; i < 1000; i++) sha256_feed(&hash, piece, sizeof piece);
  sha256_finish(&hash, text);
  assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Instructions of the processor give the states of plain C. */
static void test_instructions(void **state) {
  (void)state;
  unsigned char blocks[64 * 9 + 1];
  uint32_t random = 5;
  if (!sha256_has_instructions()) skip();
  for (int round = 0; round < 100; round++) {
    const size_t count = (size_t)round % 9 + 1, at = (size_t)round % 2; /* at any address */
    uint32_t plain[8], quick[8];
    for (size_t i = 0; i < sizeof blocks; i++) blocks[i] = (unsigned char)random_next(&random);
    for (int i = 0; i < 8; i++) plain[i] = quick[i] = random_next(&random);
    sha256_portable(plain, blocks + at, count);
    sha256_by_instructions(quick, blocks + at, count);
    assert_memory_equal(plain, quick, sizeof plain);
  }
}

static void test_memory_grows(void **state) {
  (void)state;
  const size_t bytes = (size_t)64 << 20;
  const struct memory_status before = memory_status_read();
  if (before.resident_bytes == 0) skip(); /* no /proc */
  char *memory = malloc(bytes);
  assert_non_null(memory);
  memset(memory, 1, bytes);
  const struct memory_status during = memory_status_read();
  free(memory);
  const struct memory_status after = memory_status_read();
  assert_true(during.resident_bytes >= before.resident_bytes + bytes / 4 * 3);
  assert_true(after.peak_resident_bytes >= before.resident_bytes + bytes / 4 * 3);
  assert_true(after.peak_resident_bytes >= after.resident_bytes);
}

int run_test_sha256(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors),
      cmocka_unit_test(test_million),
      cmocka_unit_test(test_instructions),
      cmocka_unit_test(test_memory_grows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
