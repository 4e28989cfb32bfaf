/* Collects the problems of a source's records, one by one. */
#ifndef NEAP_DATA_PROBLEMS_H
#define NEAP_DATA_PROBLEMS_H

#include "base/region.h"
#include "base/vector.h"

struct problem {
  int64_t place;       /* they are told in this order */
  const char *message; /* names file and place */
};

struct problems {
  neap_status status; /* of the first problem; NEAP_OK: no problems */
  VECTOR(struct problem) list;
};

/* Keeps this thread's last message and `status` as a problem. Several threads may call it at once, with one
 * region. Returns NEAP_OK; but returns NEAP_OUT_OF_MEMORY and NEAP_INTERRUPTED as they are, and fails if the
 * problem cannot be kept. */
neap_status problems_add(struct problems *problems, struct region *region, int64_t place, neap_status status);

/* Returns NEAP_OK if there are no problems; else fails with the status of the first, and a message with some
 * of them and their number. */
neap_status problems_tell(struct problems *problems, const char *source);

#endif
