#include "text/pair_table.h"

static uint64_t hash_of(struct pair pair) {
  const uint64_t key = (uint64_t)(uint32_t)pair.left << 32 | (uint32_t)pair.right;
  const uint64_t mixed = (key ^ key >> 29) * 0x9E3779B97F4A7C15u;
  return mixed ^ mixed >> 32;
}

static uint64_t hash_entry(const void *owner, int32_t entry) {
  const struct pair_table *table = owner;
  return hash_of(table->pairs.data[entry]);
}

static bool matches(const void *owner, int32_t entry, const void *key) {
  const struct pair_table *table = owner;
  const struct pair *pair = key, other = table->pairs.data[entry];
  return other.left == pair->left && other.right == pair->right;
}

static const struct index_keys keys = {hash_entry, matches};

int32_t pair_table_find(const struct pair_table *table, struct pair pair) {
  return index_find(&table->index, &keys, table, hash_of(pair), &pair);
}

neap_status pair_table_add(struct pair_table *table, struct pair pair, int32_t *number) {
  TRY(index_reserve(&table->index, &keys, table));
  int32_t *slot = index_slot(&table->index, &keys, table, hash_of(pair), &pair);
  if (*slot < 0) {
    TRY(vector_push(&table->pairs, pair));
    index_put(&table->index, slot);
  }
  *number = *slot;
  return NEAP_OK;
}

void pair_table_free(struct pair_table *table) {
  vector_free(&table->pairs);
  index_free(&table->index);
}
