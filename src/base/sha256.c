#include "base/sha256.h"

#include <string.h>

#include "base/sha256_blocks.h"

/* Runs the compression function on `count` blocks of 64 bytes. */
static void compress(uint32_t state[8], const unsigned char *blocks, size_t count) {
  if (sha256_has_instructions())
    sha256_by_instructions(state, blocks, count);
  else
    sha256_portable(state, blocks, count);
}

void sha256_start(struct sha256 *hash) {
  *hash = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                    0x1f83d9ab, 0x5be0cd19}};
}

void sha256_feed(struct sha256 *hash, const void *data, size_t bytes) {
  const unsigned char *next = data;
  while (bytes > 0) {
    const size_t held = hash->bytes % sizeof hash->block;
    if (held == 0 && bytes >= sizeof hash->block) {
      const size_t count = bytes / sizeof hash->block, whole = count * sizeof hash->block;
      compress(hash->state, next, count);
      hash->bytes += whole;
      next += whole;
      bytes -= whole;
      continue;
    }
    const size_t room = sizeof hash->block - held, part = bytes < room ? bytes : room;
    memcpy(hash->block + held, next, part);
    hash->bytes += part;
    next += part;
    bytes -= part;
    if (hash->bytes % sizeof hash->block == 0) compress(hash->state, hash->block, 1);
  }
}

void sha256_finish(struct sha256 *hash, char text[65]) {
  const uint64_t bits = hash->bytes * 8;
  sha256_feed(hash, "\x80", 1);
  while (hash->bytes % 64 != 56) sha256_feed(hash, "", 1);
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
  sha256_feed(hash, length, sizeof length);
  for (int i = 0; i < 64; i++) text[i] = "0123456789abcdef"[hash->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
  text[64] = '\0';
}
