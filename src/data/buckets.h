/* Buckets: records of like lengths together. */
#ifndef NEAP_DATA_BUCKETS_H
#define NEAP_DATA_BUCKETS_H

#include "data/source.h"

enum { BUCKET_LIMIT = 8 };

/* Records of one length; all, where they are alike. */
struct bucket {
  int64_t length;                       /* of sequences; 0: records have none */
  int64_t first[SPLITS], count[SPLITS]; /* of the records in the order of their buckets */
  int64_t micro;                        /* records of a micro-batch; the loader sets it and */
  int64_t steps;                        /* steps of an epoch, */
  int64_t rest;                         /* the last of which has this number of records; 0: it is whole */
};

/* Finds the lengths of a source's buckets, by its training records, and puts the records of each part in the
 * order of their buckets, and in their own within one. One bucket and by_bucket NULL: records are alike. */
neap_status buckets_find(const struct source *source, struct region *region,
                         struct bucket buckets[BUCKET_LIMIT], int *count, int32_t *by_bucket[SPLITS]);

#endif
