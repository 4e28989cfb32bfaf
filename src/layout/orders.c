#include "layout/orders.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/region.h"
#include "base/stop.h"
#include "base/vector.h"
#include "step/tuning.h"

enum { BUCKETS = 64, SHAPES_A_BUCKET = 512 };

/* A placed span. */
struct block {
  uint64_t offset, end;
  int64_t lower, upper;
};

/* Placed spans by rising offset that live in a part of the time. */
struct shelf {
  VECTOR(struct block) blocks;
};

struct solver {
  const struct packing *packing;
  int64_t start;  /* of time */
  uint64_t width; /* positions a bucket covers */
  int buckets;
  struct shelf bucket[BUCKETS];
  const bool *fixed; /* by shape: has its offset already; NULL: none has */
  uint64_t *offset;  /* by shape */
  double *key;       /* by shape: larger is placed earlier */
  int32_t *order;    /* shapes as they are placed */
};

static int bucket_of(const struct solver *s, int64_t position) {
  return (int)(((uint64_t)position - (uint64_t)s->start) / s->width);
}

/* Returns the lowest offset from `offset` on at which the span meets nothing on the shelf. */
static uint64_t lowest_free(const struct shelf *shelf, const struct span *span, uint64_t offset) {
  for (size_t i = 0; i < shelf->blocks.count; i++) {
    const struct block *b = &shelf->blocks.data[i];
    if (b->lower >= span->upper || b->upper <= span->lower || b->end <= offset) continue;
    if (b->offset >= offset && b->offset - offset >= span->size) break;
    offset = b->end;
  }
  return offset;
}

static neap_status put(struct shelf *shelf, struct block block) {
  TRY(vector_push(&shelf->blocks, block));
  struct block *blocks = shelf->blocks.data;
  size_t low = 0, high = shelf->blocks.count - 1;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (blocks[middle].offset < block.offset)
      low = middle + 1;
    else
      high = middle;
  }
  memmove(blocks + low + 1, blocks + low, (shelf->blocks.count - 1 - low) * sizeof *blocks);
  blocks[low] = block;
  return NEAP_OK;
}

static bool is_fixed(const struct solver *s, int32_t i) { return s->fixed != NULL && s->fixed[i]; }

/* Does the same for all parts of the time in which the span lives. */
static uint64_t lowest_free_in_all(const struct solver *s, const struct span *span, uint64_t offset) {
  const int first = bucket_of(s, span->lower), last = bucket_of(s, span->upper - 1);
  for (int b = first, agreed = 0; agreed <= last - first; b = b < last ? b + 1 : first) {
    const uint64_t next = lowest_free(&s->bucket[b], span, offset);
    agreed = next == offset ? agreed + 1 : 1;
    offset = next;
  }
  return offset;
}

/* Places a shape. `fits`: its top is below 2^64. */
static neap_status place(struct solver *s, int32_t i, bool *fits) {
  const struct shape *shape = &s->packing->shapes[i];
  uint64_t offset = is_fixed(s, i) ? s->offset[i] : 0;
  /* Looks at all spans again when one moves up. */
  for (bool moved = !is_fixed(s, i); moved;) {
    moved = false;
    for (int32_t k = shape->first; k < shape->first + shape->count; k++) {
      const struct span *span = &s->packing->spans[k];
      if (span->size == 0) continue;
      const uint64_t next = lowest_free_in_all(s, span, offset);
      moved = moved || (next != offset && shape->count > 1);
      offset = next;
      *fits = offset < UINT64_MAX - span->size;
      if (!*fits) return NEAP_OK;
    }
  }
  s->offset[i] = offset;
  for (int32_t k = shape->first; k < shape->first + shape->count; k++) {
    const struct span *span = &s->packing->spans[k];
    if (span->size == 0) continue;
    const struct block block = {offset, offset + span->size, span->lower, span->upper};
    for (int b = bucket_of(s, span->lower); b <= bucket_of(s, span->upper - 1); b++)
      TRY(put(&s->bucket[b], block));
  }
  return NEAP_OK;
}

/* Places shapes in the current order. `height`: UINT64_MAX if an offset gets too large. */
static neap_status place_in_order(struct solver *s, uint64_t *height) {
  for (int b = 0; b < s->buckets; b++) s->bucket[b].blocks.count = 0;
  *height = 0;
  for (int32_t k = 0; k < s->packing->count; k++) {
    const int32_t i = s->order[k];
    bool fits = true;
    TRY(stop_check());
    TRY(place(s, i, &fits));
    if (!fits) {
      *height = UINT64_MAX;
      return NEAP_OK;
    }
    const uint64_t top = s->offset[i] + shape_size(&s->packing->shapes[i], s->packing->spans);
    if (top > *height) *height = top;
  }
  return NEAP_OK;
}

/* ---- Orders ---- */

static int compare_keys(const void *a, const void *b, void *key) {
  const double x = ((const double *)key)[*(const int32_t *)a], y = ((const double *)key)[*(const int32_t *)b];
  if (x != y) return x < y ? 1 : -1;
  return *(const int32_t *)a - *(const int32_t *)b;
}

enum order { BY_SIZE, BY_AREA, BY_LENGTH, BY_START, BY_END, ORDERS };

static void put_in_order(struct solver *s, enum order order) {
  for (int32_t i = 0; i < s->packing->count; i++) {
    const struct shape *shape = &s->packing->shapes[i];
    const struct span *first = &s->packing->spans[shape->first], *last = first + shape->count - 1;
    const double length = (double)last->upper - (double)first->lower,
                 size = (double)shape_size(shape, s->packing->spans);
    const double keys[ORDERS] = {size, size * length, length, -(double)first->lower, (double)last->upper};
    s->key[i] = is_fixed(s, i) ? INFINITY : keys[order];
    s->order[i] = i;
  }
  qsort_r(s->order, (size_t)s->packing->count, sizeof *s->order, compare_keys, s->key);
}

static neap_status try_orders(struct solver *s, uint64_t goal, uint64_t *offsets, uint64_t *best) {
  const int orders = s->packing->count > MANY_SHAPES ? BY_AREA + 1 : ORDERS;
  *best = UINT64_MAX;
  for (int o = 0; o < orders; o++) {
    uint64_t height;
    if (*best <= goal) break;
    put_in_order(s, (enum order)o);
    TRY(place_in_order(s, &height));
    if (height >= *best) continue;
    *best = height;
    memcpy(offsets, s->offset, (size_t)s->packing->count * sizeof *offsets);
  }
  return NEAP_OK;
}

static neap_status solve(struct solver *s, struct region *region, uint64_t goal, uint64_t *offsets,
                         uint64_t *height) {
  const struct packing *packing = s->packing;
  const size_t count = (size_t)packing->count;
  s->key = region_alloc(region, count, sizeof *s->key);
  s->order = region_alloc(region, count, sizeof *s->order);
  s->offset = region_alloc(region, count, sizeof *s->offset);
  RETURN_IF(!s->key || !s->order || !s->offset, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  int64_t end = INT64_MIN;
  s->start = INT64_MAX;
  for (int32_t k = 0; k < span_count(packing); k++) {
    if (packing->spans[k].lower < s->start) s->start = packing->spans[k].lower;
    if (packing->spans[k].upper > end) end = packing->spans[k].upper;
  }
  /* A shape is entered in every bucket that it lives in: few shapes are looked through faster than entered.
   */
  const int32_t wanted = packing->count / SHAPES_A_BUCKET + 1;
  s->buckets = wanted < BUCKETS ? wanted : BUCKETS;
  s->width = ((uint64_t)end - (uint64_t)s->start) / (uint64_t)s->buckets;
  if (s->width < UINT64_MAX) s->width++;
  if (s->fixed != NULL) memcpy(s->offset, offsets, count * sizeof *offsets);
  return try_orders(s, goal, offsets, height);
}

neap_status place_by_orders(const struct packing *packing, const bool *fixed, uint64_t goal,
                            uint64_t *offsets, uint64_t *height) {
  struct solver s = {.packing = packing, .fixed = fixed};
  struct region region = {0};
  const neap_status status = solve(&s, &region, goal, offsets, height);
  for (int b = 0; b < BUCKETS; b++) vector_free(&s.bucket[b].blocks);
  region_free(&region);
  return status;
}
