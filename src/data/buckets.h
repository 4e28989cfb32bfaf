/* Buckets group records of similar length. */
#ifndef NEAP_DATA_BUCKETS_H
#define NEAP_DATA_BUCKETS_H

#include "data/source.h"

enum { BUCKET_LIMIT = 8 };

/* Records of one length, or all records if they have no length. */
struct bucket {
  int64_t length;                       /* of sequences; 0: records have none */
  int64_t first[SPLITS], count[SPLITS]; /* of the records in the order of their buckets */
  int64_t micro;                        /* records of a micro-batch; set by the loader, as are */
  int64_t steps;                        /* the steps of an epoch and */
  int64_t rest;                         /* the records of the last step; 0: it is a full step */
};

/* Finds the lengths of a source's buckets from its training records. Orders the records of each part by
 * bucket, and within a bucket by number. If records are alike, there is one bucket and by_bucket is NULL. */
neap_status buckets_find(const struct source *source, struct region *region,
                         struct bucket buckets[BUCKET_LIMIT], int *count, int32_t *by_bucket[SPLITS]);

#endif
