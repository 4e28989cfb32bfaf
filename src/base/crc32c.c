#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined __x86_64__
#include <nmmintrin.h>
#elif defined __ARM_FEATURE_CRC32
#include <arm_acle.h>
#endif

enum { LANES = 8 /* bytes at a time */ };

static uint32_t table[LANES][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

/* Fills the table: row k has the effect of a byte that k bytes follow. */
static void make_table(void) {
  static const uint32_t polynomial = 0x82f63b78; /* reflected */
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
    table[0][byte] = crc;
  }
  for (int k = 1; k < LANES; k++)
    for (int byte = 0; byte < 256; byte++)
      table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 255];
}

static uint32_t add_byte(uint32_t crc, unsigned char byte) { return crc >> 8 ^ table[0][(crc ^ byte) & 255]; }

static uint32_t add_word(uint32_t crc, const unsigned char *at) {
  uint32_t sum = 0;
  for (int i = 0; i < LANES; i++) sum ^= table[LANES - 1 - i][(at[i] ^ (i < 4 ? crc >> 8 * i : 0)) & 255];
  return sum;
}

uint32_t crc32c_plain(const void *data, uint64_t bytes) {
  const unsigned char *at = data;
  uint32_t crc = UINT32_MAX;
  pthread_once(&made, make_table);
  for (; bytes >= LANES; bytes -= LANES, at += LANES) crc = add_word(crc, at);
  for (; bytes > 0; bytes--) crc = add_byte(crc, *at++);
  return ~crc;
}

#if defined __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(const void *data, uint64_t bytes) {
  const unsigned char *at = data;
  uint64_t crc = UINT32_MAX, word;
  for (; bytes >= LANES; bytes -= LANES, at += LANES) {
    memcpy(&word, at, sizeof word);
    crc = _mm_crc32_u64(crc, word);
  }
  for (; bytes > 0; bytes--) crc = _mm_crc32_u8((uint32_t)crc, *at++);
  return ~(uint32_t)crc;
}

uint32_t crc32c(const void *data, uint64_t bytes) {
  return __builtin_cpu_supports("sse4.2") ? by_instruction(data, bytes) : crc32c_plain(data, bytes);
}
#elif defined __ARM_FEATURE_CRC32
uint32_t crc32c(const void *data, uint64_t bytes) {
  const unsigned char *at = data;
  uint32_t crc = UINT32_MAX;
  uint64_t word;
  for (; bytes >= LANES; bytes -= LANES, at += LANES) {
    memcpy(&word, at, sizeof word);
    crc = __crc32cd(crc, word);
  }
  for (; bytes > 0; bytes--) crc = __crc32cb(crc, *at++);
  return ~crc;
}
#else
uint32_t crc32c(const void *data, uint64_t bytes) { return crc32c_plain(data, bytes); }
#endif
