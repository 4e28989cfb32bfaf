#include "text/vocabulary.h"

#include <string.h>

const char *vocabulary_piece(const struct vocabulary *v, size_t i, size_t *length) {
  const size_t start = i > 0 ? v->ends.data[i - 1] : 0;
  *length = v->ends.data[i] - start;
  return *length > 0 ? v->bytes.data + start : "";
}

/* A piece that is looked for. */
struct piece {
  const char *bytes;
  size_t length;
};

static uint64_t hash_entry(const void *owner, int32_t entry) {
  size_t length;
  const char *bytes = vocabulary_piece(owner, (size_t)entry, &length);
  return hash_bytes(bytes, length);
}

static bool matches(const void *owner, int32_t entry, const void *key) {
  const struct piece *piece = key;
  size_t length;
  const char *bytes = vocabulary_piece(owner, (size_t)entry, &length);
  return length == piece->length && memcmp(bytes, piece->bytes, length) == 0;
}

static const struct index_keys keys = {hash_entry, matches};

neap_status vocabulary_add(struct vocabulary *v, const char *bytes, size_t length, int32_t id) {
  RETURN_IF(length > UINT32_MAX - v->bytes.count || v->ids.count >= INT32_MAX / 2, NEAP_TOO_LARGE,
            "a vocabulary must have less than 4 GiB of text and 2^30 pieces");
  TRY(index_reserve(&v->index, &keys, v));
  const struct piece piece = {bytes, length};
  int32_t *slot = index_slot(&v->index, &keys, v, hash_bytes(bytes, length), &piece);
  RETURN_IF(*slot >= 0, NEAP_INVALID_ARGUMENT, "the vocabulary has '%.*s' twice",
            length < 60 ? (int)length : 60, bytes);
  TRY(vector_reserve(&v->bytes, v->bytes.count + length));
  TRY(vector_reserve(&v->ends, v->ends.count + 1));
  TRY(vector_reserve(&v->ids, v->ids.count + 1));
  if (length > 0) memcpy(v->bytes.data + v->bytes.count, bytes, length);
  v->bytes.count += length;
  index_put(&v->index, slot);
  v->ends.data[v->ends.count++] = (uint32_t)v->bytes.count;
  v->ids.data[v->ids.count++] = id;
  if (length > v->longest) v->longest = length;
  return NEAP_OK;
}

neap_status vocabulary_finish(struct vocabulary *v) {
  int32_t highest = -1;
  for (size_t i = 0; i < v->ids.count; i++)
    if (v->ids.data[i] > highest) highest = v->ids.data[i];
  RETURN_IF(highest >= 0 && (size_t)highest > 2 * v->ids.count + VOCABULARY_GAPS, NEAP_INVALID_ARGUMENT,
            "id %d is far above the number of pieces, %zu", highest, v->ids.count);
  const size_t size = (size_t)highest + 1;
  TRY(vector_reserve(&v->by_id, size));
  if (size > 0) memset(v->by_id.data, 0xFF, size * sizeof *v->by_id.data);
  v->by_id.count = size;
  for (size_t i = 0; i < v->ids.count; i++) {
    int32_t *number = &v->by_id.data[v->ids.data[i]];
    RETURN_IF(*number >= 0, NEAP_INVALID_ARGUMENT, "two pieces have id %d", v->ids.data[i]);
    *number = (int32_t)i;
  }
  return NEAP_OK;
}

int32_t vocabulary_find(const struct vocabulary *v, const char *bytes, size_t length) {
  const struct piece piece = {bytes, length};
  const int32_t number = index_find(&v->index, &keys, v, hash_bytes(bytes, length), &piece);
  return number >= 0 ? v->ids.data[number] : -1;
}

const char *vocabulary_of_id(const struct vocabulary *v, int32_t id, size_t *length) {
  if (id < 0 || (size_t)id >= v->by_id.count || v->by_id.data[id] < 0) return NULL;
  return vocabulary_piece(v, (size_t)v->by_id.data[id], length);
}

void vocabulary_free(struct vocabulary *v) {
  vector_free(&v->bytes);
  vector_free(&v->ends);
  vector_free(&v->ids);
  vector_free(&v->by_id);
  index_free(&v->index);
  *v = (struct vocabulary){0};
}
