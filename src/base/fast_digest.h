/* Digests of bytes of 64 bits, several bytes a cycle. */
#ifndef NEAP_BASE_FAST_DIGEST_H
#define NEAP_BASE_FAST_DIGEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t digest_mixed(uint64_t x) {
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
  return x ^ x >> 32;
}

/* Adds bytes to a digest. Not for protection: equal digests of other bytes can be made. */
static inline uint64_t digest_bytes(uint64_t digest, const void *bytes, size_t count) {
  const unsigned char *at = bytes;
  uint64_t word = 0;
  for (; count >= sizeof word; at += sizeof word, count -= sizeof word) {
    memcpy(&word, at, sizeof word);
    digest = (digest ^ word) * 0x9E3779B97F4A7C15u;
    digest ^= digest >> 29;
  }
  word = count;
  memcpy((unsigned char *)&word + 1, at, count);
  return digest_mixed(digest ^ word);
}

/* Returns the share that part `number` has in a digest that is the sum of its parts. */
static inline uint64_t digest_share(uint64_t digest, int64_t number) {
  return digest_mixed(digest + digest_mixed((uint64_t)number + 1));
}

#endif
