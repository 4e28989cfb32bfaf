#include "base/index.h"

#include <string.h>

enum { FIRST_SLOTS = 64 };

/* Goes to the first slot that is free: of two entries of one key the one that comes first is found. */
static void insert(struct index *index, uint64_t hash, int32_t entry) {
  const size_t mask = index->slots.count - 1;
  size_t at = (size_t)hash & mask;
  while (index->slots.data[at] >= 0) at = (at + 1) & mask;
  index->slots.data[at] = entry;
}

neap_status index_reserve(struct index *index, const struct index_keys *keys, const void *owner) {
  const size_t old = index->slots.count, count = old > 0 ? 2 * old : FIRST_SLOTS;
  if (2 * (index->count + 1) <= old) return NEAP_OK;
  RETURN_IF(index->count >= INT32_MAX, NEAP_TOO_LARGE, "an index has at most %d entries", INT32_MAX);
  TRY(vector_reserve(&index->slots, count));
  index->slots.count = count;
  memset(index->slots.data, -1, count * sizeof *index->slots.data);
  for (size_t i = index->count; i-- > 0;) insert(index, keys->hash(owner, (int32_t)i), (int32_t)i);
  return NEAP_OK;
}

void index_free(struct index *index) {
  vector_free(&index->slots);
  index->count = 0;
}
