#include "step/rank_set.h"

#include <stdlib.h>

neap_status rank_set_create(int32_t limit, struct rank_set *set) {
  size_t start[RANK_SET_LEVELS], total = 0, size = (size_t)limit;
  int levels = 0;
  do {
    size = (size + 63) / 64;
    if (size == 0) size = 1;
    start[levels++] = total;
    total += size;
  } while (size > 1);
  uint64_t *words = calloc(total, sizeof *words);
  RETURN_IF_NULL(words);
  *set = (struct rank_set){.words = words, .level_count = levels};
  for (int i = 0; i < levels; i++) set->level[i] = words + start[i];
  return NEAP_OK;
}

void rank_set_free(struct rank_set *set) {
  free(set->words);
  *set = (struct rank_set){0};
}

void rank_set_insert(struct rank_set *set, int32_t rank) {
  for (int i = 0; i < set->level_count; i++, rank >>= 6)
    set->level[i][rank >> 6] |= (uint64_t)1 << (rank & 63);
}

void rank_set_erase(struct rank_set *set, int32_t rank) {
  for (int i = 0; i < set->level_count; i++, rank >>= 6) {
    uint64_t *word = &set->level[i][rank >> 6];
    *word &= ~((uint64_t)1 << (rank & 63));
    if (*word != 0) return;
  }
}

int32_t rank_set_below(const struct rank_set *set, int32_t rank) {
  for (int i = 0; i < set->level_count; i++, rank >>= 6) {
    uint64_t word = set->level[i][rank >> 6] & (((uint64_t)1 << (rank & 63)) - 1);
    if (word == 0) continue;
    for (rank >>= 6;; word = set->level[--i][rank]) {
      rank = rank * 64 + (63 - __builtin_clzll(word));
      if (i == 0) return rank;
    }
  }
  return -1;
}

int32_t rank_set_above(const struct rank_set *set, int32_t rank) {
  for (int i = 0; i < set->level_count; i++, rank >>= 6) {
    uint64_t word = set->level[i][rank >> 6] & (~(uint64_t)1 << (rank & 63));
    if (word == 0) continue;
    for (rank >>= 6;; word = set->level[--i][rank]) {
      rank = rank * 64 + __builtin_ctzll(word);
      if (i == 0) return rank;
    }
  }
  return -1;
}
