/* The header of NumPy's files (.npy, formats 1.0, 2.0 and 3.0) of one dimension. */
#ifndef NEAP_TEXT_NPY_H
#define NEAP_TEXT_NPY_H

#include <stdint.h>

#include "base/status.h"

enum { NPY_TYPE_BYTES = 16 };

struct npy {
  char type[NPY_TYPE_BYTES]; /* of an element, as NumPy writes it: "<u2" */
  int64_t count;             /* elements, */
  uint64_t offset;           /* which begin there in the file */
};

/* Reads the header of an open file; `path` is for messages. NEAP_BAD_FORMAT: it has none, or one that NumPy
 * does not write. NEAP_UNSUPPORTED: another format, not one dimension or not in C order. What follows the
 * header is not looked at. */
neap_status npy_read(const char *path, int descriptor, struct npy *npy);

#endif
