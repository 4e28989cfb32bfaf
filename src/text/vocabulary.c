#include "text/vocabulary.h"

#include <string.h>

/* FNV-1a, and the high half mixed into the low one. */
static size_t hash(const char *bytes, size_t length) {
  uint64_t value = 0xcbf29ce484222325u;
  for (size_t i = 0; i < length; i++) value = (value ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return (size_t)(value ^ (value >> 32));
}

const char *vocabulary_piece(const struct vocabulary *v, size_t i, size_t *length) {
  const size_t start = i > 0 ? v->ends.data[i - 1] : 0;
  *length = v->ends.data[i] - start;
  return *length > 0 ? v->bytes.data + start : "";
}

/* Returns the slot of a piece, or the free one where it belongs. One always exists. */
static size_t slot_of(const struct vocabulary *v, const char *bytes, size_t length) {
  size_t slot = hash(bytes, length) & (v->slot_count - 1), size;
  for (; v->slots[slot] >= 0; slot = (slot + 1) & (v->slot_count - 1)) {
    const char *piece = vocabulary_piece(v, (size_t)v->slots[slot], &size);
    if (size == length && memcmp(piece, bytes, length) == 0) break;
  }
  return slot;
}

static neap_status grow(struct vocabulary *v) {
  const size_t count = v->slot_count > 0 ? v->slot_count * 2 : 64;
  int32_t *slots = malloc(count * sizeof *slots);
  RETURN_IF_NULL(slots);
  memset(slots, 0xFF, count * sizeof *slots);
  free(v->slots);
  v->slots = slots;
  v->slot_count = count;
  for (size_t i = 0, length; i < v->ids.count; i++) {
    const char *piece = vocabulary_piece(v, i, &length);
    v->slots[slot_of(v, piece, length)] = (int32_t)i;
  }
  return NEAP_OK;
}

neap_status vocabulary_add(struct vocabulary *v, const char *bytes, size_t length, int32_t id) {
  RETURN_IF(length > UINT32_MAX - v->bytes.count || v->ids.count >= INT32_MAX / 2, NEAP_TOO_LARGE,
            "a vocabulary must have less than 4 GiB of text and 2^30 pieces");
  if (2 * (v->ids.count + 1) > v->slot_count) TRY(grow(v));
  const size_t slot = slot_of(v, bytes, length);
  RETURN_IF(v->slots[slot] >= 0, NEAP_INVALID_ARGUMENT, "the vocabulary has '%.*s' twice",
            length < 60 ? (int)length : 60, bytes);
  TRY(vector_reserve(&v->bytes, v->bytes.count + length));
  TRY(vector_reserve(&v->ends, v->ends.count + 1));
  TRY(vector_reserve(&v->ids, v->ids.count + 1));
  if (length > 0) memcpy(v->bytes.data + v->bytes.count, bytes, length);
  v->bytes.count += length;
  v->slots[slot] = (int32_t)v->ids.count;
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
  if (v->slot_count == 0) return -1;
  const int32_t number = v->slots[slot_of(v, bytes, length)];
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
  free(v->slots);
  *v = (struct vocabulary){0};
}
