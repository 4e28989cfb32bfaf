#include "text/word_table.h"

#include <string.h>

/* FNV-1a. Its upper bits are folded in, since slots are chosen by the lower ones. */
static uint64_t hash_of(const char *bytes, size_t length) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001B3u;
  return hash ^ hash >> 32;
}

/* Returns the slot of a word, or the empty one where it belongs. */
static int32_t *find_slot(const struct word_table *table, const struct word *word) {
  const size_t mask = table->slot_count - 1;
  for (size_t at = word->hash & mask;; at = (at + 1) & mask) {
    int32_t *slot = &table->slots[at];
    if (*slot < 0) return slot;
    const struct word *other = &table->words.data[*slot];
    if (other->hash == word->hash && other->length == word->length &&
        memcmp(other->bytes, word->bytes, word->length) == 0)
      return slot;
  }
}

static neap_status grow(struct word_table *table) {
  const size_t count = table->slot_count > 0 ? 2 * table->slot_count : 64;
  int32_t *slots = reallocarray(NULL, count, sizeof *slots);
  RETURN_IF(slots == NULL, NEAP_OUT_OF_MEMORY, "out of memory for a table of %zu words", table->words.count);
  memset(slots, 0xFF, count * sizeof *slots);
  free(table->slots);
  table->slots = slots;
  table->slot_count = count;
  for (size_t i = 0; i < table->words.count; i++) *find_slot(table, &table->words.data[i]) = (int32_t)i;
  return NEAP_OK;
}

neap_status word_table_add(struct word_table *table, const char *bytes, size_t length, int32_t *number) {
  if (2 * (table->words.count + 1) > table->slot_count) TRY(grow(table));
  const struct word word = {bytes, length, hash_of(bytes, length)};
  int32_t *slot = find_slot(table, &word);
  if (*slot < 0) {
    RETURN_IF(table->words.count == INT32_MAX, NEAP_TOO_LARGE, "more than %d different words", INT32_MAX);
    TRY(vector_push(&table->words, word));
    *slot = (int32_t)(table->words.count - 1);
  }
  *number = *slot;
  return NEAP_OK;
}

void word_table_free(struct word_table *table) {
  vector_free(&table->words);
  free(table->slots);
  *table = (struct word_table){0};
}
