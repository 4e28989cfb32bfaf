#include "data/buckets.h"

#include <stdlib.h>
#include <string.h>

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Chooses the lengths of buckets: each is one that a certain share of the training records does not exceed,
 * rounded up; the last bucket holds the longest record. */
static neap_status choose_lengths(const struct source *source, struct bucket *buckets, int *count) {
  static const double shares[] = {0.25, 0.5, 0.75, 0.9, 0.98};
  enum { MULTIPLE = 4 };
  const int64_t training = source->records[SPLIT_TRAIN];
  int64_t *all = malloc((size_t)training * sizeof *all);
  RETURN_IF_NULL(all);
  for (int64_t i = 0; i < training; i++) all[i] = source->length(source, SPLIT_TRAIN, i);
  qsort(all, (size_t)training, sizeof *all, by_number);
  *count = 0;
  for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
    const int64_t length =
        (all[(int64_t)(shares[k] * (double)(training - 1))] + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    if (length < source->sequence_length && (*count == 0 || length > buckets[*count - 1].length))
      buckets[(*count)++].length = length;
  }
  buckets[(*count)++].length = source->sequence_length;
  free(all);
  return NEAP_OK;
}

static void sort_records(const struct source *source, enum split split, struct bucket *buckets, int count,
                         int32_t *by_bucket) {
  int64_t done = 0;
  for (int k = 0; k < count; k++) {
    const int64_t above = k > 0 ? buckets[k - 1].length : 0;
    buckets[k].first[split] = done;
    for (int64_t i = 0; i < source->records[split]; i++) {
      const int64_t length = source->length(source, split, i);
      if (length > above && length <= buckets[k].length) by_bucket[done++] = (int32_t)i;
    }
    buckets[k].count[split] = done - buckets[k].first[split];
  }
}

neap_status buckets_find(const struct source *source, struct region *region,
                         struct bucket buckets[BUCKET_LIMIT], int *count, int32_t *by_bucket[SPLITS]) {
  *count = 1;
  buckets[0] = (struct bucket){.length = source->sequence_length};
  for (int s = 0; s < SPLITS; s++) buckets[0].count[s] = source->records[s];
  if (source->length == NULL) return NEAP_OK;
  TRY(choose_lengths(source, buckets, count));
  for (int s = 0; s < SPLITS; s++) {
    by_bucket[s] = region_alloc(region, (size_t)source->records[s], sizeof *by_bucket[s]);
    RETURN_IF_NULL(by_bucket[s]);
    sort_records(source, (enum split)s, buckets, *count, by_bucket[s]);
  }
  return NEAP_OK;
}
