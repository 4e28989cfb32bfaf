/* Reads zip files, as numpy.savez writes them: entries that are stored or deflated. */
#ifndef NEAP_DATA_ZIP_H
#define NEAP_DATA_ZIP_H

#include "data/source.h"

struct zip_entry {
  const char *name;
  int method; /* 0: stored, 8: deflated */
  uint32_t checksum;
  uint64_t offset, compressed, size; /* offset: that of its local header */
};

struct zip {
  const char *path; /* borrowed */
  int descriptor;
  uint64_t size;
  VECTOR(struct zip_entry) entries;
};

/* Opens a file until source_close and lists its entries; their names are in the source's region. zip_free
 * frees the list, whatever the status. NEAP_BAD_FORMAT: it is not a zip file, or a damaged one. */
neap_status zip_open(struct source *source, const char *path, struct zip *zip);
void zip_free(struct zip *zip);

/* Returns the entry of that name; NULL: no such entry. */
const struct zip_entry *zip_find(const struct zip *zip, const char *name);

/* Gives the bytes of an entry in an open file, from *offset on: in the zip file itself, or if it is deflated
 * in a temporary file until source_close. NEAP_BAD_FORMAT: it is damaged. NEAP_UNSUPPORTED: another
 * method. */
neap_status zip_open_entry(struct source *source, const struct zip *zip, const struct zip_entry *entry,
                           int *descriptor, uint64_t *offset);

#endif
