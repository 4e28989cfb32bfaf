/* Reading files past the system's cache of pages: aligned parts of a file go into one buffer (O_DIRECT),
 * where the file system takes that; else they are read as usual, and the cache is told to drop them. */
#ifndef NEAP_BASE_DIRECT_FILE_H
#define NEAP_BASE_DIRECT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"

struct direct_file;

/* A buffer that files share: it has a part of one of them. Zeroed: it has no memory. */
struct direct_buffer {
  unsigned char *memory;
  uint64_t bytes;
  const struct direct_file *of; /* whose part it has; NULL: nobody's */
  uint64_t at, filled;          /* the part: where it begins in the file, and its bytes */
  uint64_t total;               /* bytes read from disk so far */
};

/* Allocates a buffer of `bytes`, a multiple of 4096 and at least 8192. */
neap_status direct_buffer_create(uint64_t bytes, struct direct_buffer *buffer);
void direct_buffer_free(struct direct_buffer *buffer);

struct direct_file {
  const char *path;  /* borrowed */
  int plain, direct; /* descriptors: the caller's; of its own, -1 where the file system takes none */
  struct file_stamp stamp;
  uint64_t from, until; /* reads that begin in between go on up to the end */
  struct direct_buffer *buffer;
};

/* Takes a regular file that is open for reading as `descriptor`, which stays the caller's and open longer. */
neap_status direct_file_open(const char *path, int descriptor, struct direct_buffer *buffer,
                             struct direct_file *file);
void direct_file_close(struct direct_file *file);

/* Announces that reads go on from `offset` up to `until`, and brings `bytes` from `offset` on into the
 * buffer, if it has room for them. Reads elsewhere bring what they ask for alone. */
neap_status direct_file_cover(struct direct_file *file, uint64_t offset, uint64_t bytes, uint64_t until);

/* Reads bytes through the buffer; or, where many reads are small and lie apart, as usual. One thread at a
 * time for all files of a buffer. NEAP_BAD_FORMAT: the file ends before them, or was changed since it was
 * opened. NEAP_IO_FAILED: the system's word on it. The message names file and offset. */
neap_status direct_file_read(struct direct_file *file, uint64_t offset, void *to, uint64_t bytes);
neap_status direct_file_read_apart(struct direct_file *file, uint64_t offset, void *to, uint64_t bytes);

#endif
