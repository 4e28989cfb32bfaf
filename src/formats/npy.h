/* The header of NumPy's files (.npy, formats 1.0, 2.0 and 3.0). */
#ifndef NEAP_FORMATS_NPY_H
#define NEAP_FORMATS_NPY_H

#include <stdint.h>

#include "base/status.h"

enum { NPY_TYPE_BYTES = 16 };

struct npy {
  char type[NPY_TYPE_BYTES];          /* of an element, as NumPy writes it: "<u2" */
  int rank;                           /* 0: one number */
  int64_t dims[NEAP_MAX_RANK], count; /* all elements, */
  uint64_t offset;                    /* and their offset in the file */
};

/* Reads the header that begins at `base` of an open file; `path` is for messages. NEAP_BAD_FORMAT: it is
 * missing, or NumPy does not write such a one. NEAP_UNSUPPORTED: another format, more than NEAP_MAX_RANK
 * dimensions or not in C order. The bytes after the header are not read. */
neap_status npy_read(const char *path, int descriptor, uint64_t base, struct npy *npy);

#endif
