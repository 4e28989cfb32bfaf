/* SHA-256 (FIPS 180-4), fed piece by piece. */
#ifndef NEAP_BASE_SHA256_H
#define NEAP_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
  uint32_t state[8];
  uint64_t bytes; /* fed so far */
  unsigned char block[64];
};

void sha256_start(struct sha256 *hash);
void sha256_feed(struct sha256 *hash, const void *data, size_t bytes);

/* Ends the message; `text` becomes 64 lower-case hexadecimal digits and a NUL. */
void sha256_finish(struct sha256 *hash, char text[65]);

#endif
