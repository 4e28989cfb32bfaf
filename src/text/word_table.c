#include "text/word_table.h"

#include <string.h>

static uint64_t hash_entry(const void *owner, int32_t entry) {
  const struct word_table *table = owner;
  return table->words.data[entry].hash;
}

static bool matches(const void *owner, int32_t entry, const void *key) {
  const struct word_table *table = owner;
  const struct word *word = key, *other = &table->words.data[entry];
  return other->hash == word->hash && other->length == word->length &&
         memcmp(other->bytes, word->bytes, word->length) == 0;
}

static const struct index_keys keys = {hash_entry, matches};

neap_status word_table_add(struct word_table *table, const char *bytes, size_t length, int32_t *number) {
  TRY(index_reserve(&table->index, &keys, table));
  const struct word word = {bytes, length, hash_bytes(bytes, length)};
  int32_t *slot = index_slot(&table->index, &keys, table, word.hash, &word);
  if (*slot < 0) {
    TRY(vector_push(&table->words, word));
    index_put(&table->index, slot);
  }
  *number = *slot;
  return NEAP_OK;
}

void word_table_free(struct word_table *table) {
  vector_free(&table->words);
  index_free(&table->index);
}
