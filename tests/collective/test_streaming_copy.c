/* Copies past the caches are copies: of every length around a cache line, at every place in one. */
#include <string.h>

#include "collective/streaming_copy.h"
#include "testing.h"

enum { MOST = 400, PLACES = 64, BYTES = MOST + 3 * PLACES };

static void check(size_t to, size_t from, size_t bytes) {
  unsigned char source[BYTES], copied[BYTES], expected[BYTES];
  for (size_t i = 0; i < BYTES; i++) source[i] = (unsigned char)(i * 131 + bytes);
  memset(copied, 0xA5, BYTES);
  memset(expected, 0xA5, BYTES);
  memcpy(expected + to, source + from, bytes);
  streaming_copy(copied + to, source + from, bytes);
  assert_memory_equal(copied, expected, BYTES);
}

static void test_copies(void **state) {
  (void)state;
  for (size_t bytes = 0; bytes <= MOST; bytes++)
    for (size_t to = 0; to < PLACES; to += 7)
      for (size_t from = 0; from < PLACES; from += 13) check(to, from, bytes);
}

int run_test_streaming_copy(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
