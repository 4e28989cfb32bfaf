#include "text/pair_table.h"

#include <string.h>

static size_t hash_of(struct pair pair) {
  const uint64_t key = (uint64_t)(uint32_t)pair.left << 32 | (uint32_t)pair.right;
  const uint64_t mixed = (key ^ key >> 29) * 0x9E3779B97F4A7C15u;
  return (size_t)(mixed ^ mixed >> 32);
}

/* Returns the slot of a pair, or the empty one where it belongs. */
static int32_t *find_slot(const struct pair_table *table, struct pair pair) {
  const size_t mask = table->slot_count - 1;
  for (size_t at = hash_of(pair) & mask;; at = (at + 1) & mask) {
    int32_t *slot = &table->slots[at];
    if (*slot < 0) return slot;
    const struct pair other = table->pairs.data[*slot];
    if (other.left == pair.left && other.right == pair.right) return slot;
  }
}

static neap_status grow(struct pair_table *table) {
  const size_t count = table->slot_count > 0 ? 2 * table->slot_count : 64;
  int32_t *slots = reallocarray(NULL, count, sizeof *slots);
  RETURN_IF(slots == NULL, NEAP_OUT_OF_MEMORY, "out of memory for a table of %zu pairs", table->pairs.count);
  memset(slots, 0xFF, count * sizeof *slots);
  free(table->slots);
  table->slots = slots;
  table->slot_count = count;
  for (size_t i = 0; i < table->pairs.count; i++) *find_slot(table, table->pairs.data[i]) = (int32_t)i;
  return NEAP_OK;
}

int32_t pair_table_find(const struct pair_table *table, struct pair pair) {
  return table->slot_count == 0 ? -1 : *find_slot(table, pair);
}

neap_status pair_table_add(struct pair_table *table, struct pair pair, int32_t *number) {
  if (2 * (table->pairs.count + 1) > table->slot_count) TRY(grow(table));
  int32_t *slot = find_slot(table, pair);
  if (*slot < 0) {
    RETURN_IF(table->pairs.count == INT32_MAX, NEAP_TOO_LARGE, "more than %d different pairs", INT32_MAX);
    TRY(vector_push(&table->pairs, pair));
    *slot = (int32_t)(table->pairs.count - 1);
  }
  *number = *slot;
  return NEAP_OK;
}

void pair_table_free(struct pair_table *table) {
  vector_free(&table->pairs);
  free(table->slots);
  *table = (struct pair_table){0};
}
