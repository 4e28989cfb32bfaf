/* The compression function of SHA-256 (FIPS 180-4, 6.2.2) on `count` blocks of 64 bytes. */
#ifndef NEAP_BASE_SHA256_BLOCKS_H
#define NEAP_BASE_SHA256_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void sha256_portable(uint32_t state[8], const unsigned char *blocks, size_t count);

/* Returns true if this processor has instructions for it. */
bool sha256_has_instructions(void);

/* The same by these instructions, several times as fast. Only where the processor has them. */
void sha256_by_instructions(uint32_t state[8], const unsigned char *blocks, size_t count);

#endif
