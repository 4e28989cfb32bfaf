/* An index: finds entries by their keys. The owner keeps the entries, say in a VECTOR, numbered 0, 1, 2, ...
 * as they are put; the index keeps numbers alone, in slots of open addressing:
 *
 *     static uint64_t hash_pair(const void *table, int32_t pair);
 *     static bool is_pair(const void *table, int32_t pair, const void *key);
 *     static const struct index_keys pair_keys = {hash_pair, is_pair};
 *     ...
 *     TRY(index_reserve(&t->index, &pair_keys, t));
 *     int32_t *slot = index_slot(&t->index, &pair_keys, t, hash_of(key), &key);
 *     if (*slot < 0) {
 *       TRY(vector_push(&t->pairs, key));
 *       index_put(&t->index, slot);
 *     }
 *
 * A zeroed index is empty. Where `keys` is constant the compiler calls no pointer. */
#ifndef NEAP_BASE_INDEX_H
#define NEAP_BASE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vector.h"

struct index {
  VECTOR(int32_t)
  slots;        /* private: an entry's number or -1; a power of two, or none; at most half of them taken */
  size_t count; /* of the entries that were put */
};

/* The functions by which an owner's entries are found. */
struct index_keys {
  uint64_t (*hash)(const void *owner, int32_t entry);                 /* of the entry's key */
  bool (*matches)(const void *owner, int32_t entry, const void *key); /* the entry has this key */
};

/* Makes room for one entry more. A failure leaves the index as it was. NEAP_OUT_OF_MEMORY. NEAP_TOO_LARGE: it
 * has 2^31 - 1 entries. */
neap_status index_reserve(struct index *index, const struct index_keys *keys, const void *owner);

/* Returns the slot of the last entry that has this key; without one, the slot for a new entry, which holds
 * -1. `hash` is the key's. Needs a call of index_reserve before; the slot is good until the next. */
static inline int32_t *index_slot(const struct index *index, const struct index_keys *keys, const void *owner,
                                  uint64_t hash, const void *key) {
  const size_t mask = index->slots.count - 1;
  for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
    int32_t *slot = &index->slots.data[at];
    if (*slot < 0 || keys->matches(owner, *slot, key)) return slot;
  }
}

/* Returns the number of the last entry that has this key, whose hash is `hash`; -1: it is missing. */
static inline int32_t index_find(const struct index *index, const struct index_keys *keys, const void *owner,
                                 uint64_t hash, const void *key) {
  return index->slots.count == 0 ? -1 : *index_slot(index, keys, owner, hash, key);
}

/* Puts the next entry, whose number is the index's count, into its slot. One of the same key is not found any
 * more. */
static inline void index_put(struct index *index, int32_t *slot) { *slot = (int32_t)index->count++; }

/* The index is empty and usable again; its memory is kept for what follows. */
static inline void index_clear(struct index *index) { index->slots.count = index->count = 0; }

/* The same, and its memory is given back. */
void index_free(struct index *index);

/* Returns a hash of bytes: FNV-1a, whose upper bits are folded into the lower ones, by which slots are
 * chosen. */
static inline uint64_t hash_bytes(const void *bytes, size_t length) {
  const unsigned char *at = bytes;
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ at[i]) * 0x100000001B3u;
  return hash ^ hash >> 32;
}

#endif
