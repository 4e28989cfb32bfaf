/* Files of token ids, read one window at a time: only ids, little-endian, or NumPy's .npy files. */
#ifndef NEAP_TEXT_TOKEN_FILE_H
#define NEAP_TEXT_TOKEN_FILE_H

#include <stdint.h>

#include "base/status.h"

enum token_type { TOKEN_U8, TOKEN_U16, TOKEN_I32, TOKEN_I64 };

struct token_file {
  const char *path; /* borrowed */
  int descriptor;   /* negative: none is open */
  enum token_type type;
  uint64_t offset; /* of the first id */
  int64_t count;   /* ids, 1 or more */
};

/* Opens a file without reading ids. If its name ends in ".npy" its header describes it (|u1, <u2, <i4 or <i8,
 * one dimension) and `type` is ignored; otherwise it holds only ids of `type`. The path must live until
 * token_file_close, which is called whatever the status.
 *
 * NEAP_BAD_FORMAT: the file is empty, or its size does not fit its ids. Errors of a header: npy.h. */
neap_status token_file_open(const char *path, enum token_type type, struct token_file *file);
void token_file_close(struct token_file *file);

/* Reads ids [count] from place `first` on. Allocates nothing; several threads may read at once.
 * NEAP_INVALID_ARGUMENT: the file has no such window. NEAP_BAD_FORMAT: an id is negative or above INT32_MAX
 * (the message names its place), or the file was cut short since it was opened. */
neap_status token_file_read(const struct token_file *file, int64_t first, int64_t count, int32_t *ids);

/* Finds the largest id and its first place. Reads all of the file, a small buffer at a time, until a stop is
 * requested (stop.h). Errors as above. */
neap_status token_file_largest(const struct token_file *file, int32_t *largest, int64_t *place);

#endif
