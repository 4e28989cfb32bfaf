/* CRC-32C beside the examples of RFC 3720 and its definition bit by bit. */
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "testing.h"

static uint32_t by_bits(const unsigned char *data, uint64_t bytes) {
  uint32_t crc = UINT32_MAX;
  for (uint64_t i = 0; i < bytes; i++) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

/* RFC 3720, B.4: 32 bytes of zeros, of ones, rising and falling. */
static void test_examples(void **state) {
  (void)state;
  static const uint32_t wanted[] = {0x8a9136aa, 0x62a8ab43, 0x46dd794e, 0x113fdb5c};
  for (int k = 0; k < 4; k++) {
    unsigned char data[32];
    for (int i = 0; i < 32; i++) data[i] = (unsigned char)(k == 0 ? 0 : k == 1 ? 255 : k == 2 ? i : 31 - i);
    assert_int_equal(crc32c(data, 32), wanted[k]);
    assert_int_equal(crc32c_plain(data, 32), wanted[k]);
  }
  assert_int_equal(crc32c("123456789", 9), 0xe3069283u);
}

static void test_lengths(void **state) {
  (void)state;
  unsigned char data[4096];
  for (int i = 0; i < 4096; i += 4) {
    uint32_t word[4];
    random_philox(1, 0, (uint64_t)i, word);
    for (int b = 0; b < 4; b++) data[i + b] = (unsigned char)(word[0] >> 8 * b);
  }
  for (uint64_t from = 0; from < 9; from++)
    for (uint64_t bytes = 0; bytes < 300; bytes++) {
      assert_int_equal(crc32c(data + from, bytes), by_bits(data + from, bytes));
      assert_int_equal(crc32c_plain(data + from, bytes), by_bits(data + from, bytes));
    }
}

int run_test_crc32c(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples), cmocka_unit_test(test_lengths)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
