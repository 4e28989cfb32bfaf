/* Ids of nodes and tensors in arrays. */
#ifndef NEAP_BASE_IDS_H
#define NEAP_BASE_IDS_H

#include <stdint.h>

/* For qsort: rising. */
static inline int compare_ids(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

#endif
