/* What is wrong with the records of a source, one by one. */
#ifndef NEAP_DATA_PROBLEMS_H
#define NEAP_DATA_PROBLEMS_H

#include "base/region.h"
#include "base/vector.h"

struct problem {
  int64_t place;       /* in the order in which they are told */
  const char *message; /* names file and place */
};

struct problems {
  neap_status status; /* of the first; NEAP_OK: none exist */
  VECTOR(struct problem) list;
};

/* Keeps this thread's last message as a problem, `status` too. Several threads may call it at once, with one
 * region. A failure to keep it, and NEAP_OUT_OF_MEMORY and NEAP_INTERRUPTED, come back; NEAP_OK else. */
neap_status problems_add(struct problems *problems, struct region *region, int64_t place, neap_status status);

/* NEAP_OK without problems; else the status of the first, and a message with some of them and how many
 * there are in all. */
neap_status problems_tell(struct problems *problems, const char *source);

#endif
