#include "base/region.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384 };

struct region_block {
  struct region_block *next;
  size_t used, capacity;
  alignas(max_align_t) unsigned char data[];
};

void *region_alloc(struct region *region, size_t count, size_t size) {
  const size_t align = alignof(max_align_t);
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, align, &bytes))
    return NULL;
  bytes &= ~(align - 1); /* at least one unit, so that a count of 0 has an address of its own */
  struct region_block *block = region->blocks;
  if (block == NULL || block->capacity - block->used < bytes) {
    const size_t capacity = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
    size_t total;
    if (__builtin_add_overflow(capacity, sizeof *block, &total)) return NULL;
    block = malloc(total);
    if (block == NULL) return NULL;
    *block = (struct region_block){.capacity = capacity};
    /* A large piece goes behind the block that is being filled, which stays in use. */
    const bool whole = capacity == bytes && region->blocks != NULL;
    struct region_block **link = whole ? &region->blocks->next : &region->blocks;
    block->next = *link;
    *link = block;
  }
  void *piece = block->data + block->used;
  block->used += bytes;
  return memset(piece, 0, bytes);
}

void *region_copy(struct region *region, const void *source, size_t count, size_t size) {
  void *copy = region_alloc(region, count, size);
  if (copy != NULL && count * size > 0) memcpy(copy, source, count * size);
  return copy;
}

char *region_string(struct region *region, const char *text) {
  return region_copy(region, text, strlen(text) + 1, 1);
}

char *region_format(struct region *region, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = length < 0 ? NULL : region_alloc(region, (size_t)length + 1, 1);
  if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

void region_free(struct region *region) {
  for (struct region_block *block = region->blocks, *next; block != NULL; block = next) {
    next = block->next;
    free(block);
  }
  region->blocks = NULL;
}
