/* CRC-32C (Castagnoli), of RFC 3720 and of ext4's and iSCSI's blocks. */
#ifndef NEAP_BASE_CRC32C_H
#define NEAP_BASE_CRC32C_H

#include <stdint.h>

/* Returns the checksum of bytes. Takes the processor's instruction where there is one. */
uint32_t crc32c(const void *data, uint64_t bytes);

/* Returns the same without that instruction, for tests. */
uint32_t crc32c_plain(const void *data, uint64_t bytes);

#endif
