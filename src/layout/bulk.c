#include "layout/bulk.h"

#include <string.h>

#include "base/region.h"
#include "layout/eject.h"
#include "layout/orders.h"

struct bulk {
  const struct shape *shapes;
  int32_t count;
  const struct span *spans;
  bool *large;                /* by shape */
  struct shape *large_shapes; /* copies, with their spans */
  struct span *large_spans;   /* ... */
  int32_t *shape_of;          /* large -> shape */
  uint64_t *offsets, *filled; /* by large; by shape */
  int32_t large_count;
};

/* Whatever is at least so large. */
static void select_large(struct bulk *b, uint64_t threshold, const uint64_t *offsets) {
  int32_t spans = 0;
  for (int32_t i = 0; i < b->count; i++) {
    b->large[i] = shape_size(&b->shapes[i], b->spans) >= threshold;
    if (!b->large[i]) continue;
    const struct shape *shape = &b->shapes[i];
    const int32_t k = b->large_count++;
    b->shape_of[k] = i;
    b->offsets[k] = offsets[i];
    b->large_shapes[k] = (struct shape){.first = spans, .count = shape->count};
    memcpy(b->large_spans + spans, b->spans + shape->first, (size_t)shape->count * sizeof *b->spans);
    spans += shape->count;
  }
}

static neap_status prepare(struct bulk *b, struct region *region) {
  const size_t count = (size_t)b->count,
               span_count = (size_t)(b->shapes[count - 1].first + b->shapes[count - 1].count);
  b->large = region_alloc(region, count, sizeof *b->large);
  b->large_shapes = region_alloc(region, count, sizeof *b->large_shapes);
  b->large_spans = region_alloc(region, span_count, sizeof *b->large_spans);
  b->shape_of = region_alloc(region, count, sizeof *b->shape_of);
  b->offsets = region_alloc(region, count, sizeof *b->offsets);
  b->filled = region_alloc(region, count, sizeof *b->filled);
  RETURN_IF(!b->large || !b->large_shapes || !b->large_spans || !b->shape_of || !b->offsets || !b->filled,
            NEAP_OUT_OF_MEMORY, "layout: out of memory");
  return NEAP_OK;
}

static neap_status place(struct bulk *b, uint64_t capacity, int64_t work, uint64_t *offsets, bool *found) {
  enum { SHARE = 256 }; /* of the capacity */
  uint64_t height;
  int64_t left = work;
  select_large(b, capacity / SHARE, offsets);
  TRY(place_by_ejection(b->large_shapes, b->large_count, b->large_spans, NULL, capacity, &left, b->offsets,
                        found));
  if (!*found) return NEAP_OK;
  for (int32_t k = 0; k < b->large_count; k++) b->filled[b->shape_of[k]] = b->offsets[k];
  TRY(fill_by_orders(b->shapes, b->count, b->spans, b->large, capacity, b->filled, &height));
  left = work;
  if (height > capacity)
    TRY(place_by_ejection(b->shapes, b->count, b->spans, NULL, capacity, &left, b->filled, found));
  if (*found) memcpy(offsets, b->filled, (size_t)b->count * sizeof *offsets);
  return NEAP_OK;
}

neap_status place_by_bulk(const struct shape *shapes, int32_t count, const struct span *spans,
                          uint64_t capacity, int64_t work, uint64_t *offsets, bool *found) {
  struct bulk b = {.shapes = shapes, .count = count, .spans = spans};
  struct region region = {0};
  *found = false;
  if (count == 0) return NEAP_OK;
  neap_status status = prepare(&b, &region);
  if (status == NEAP_OK) status = place(&b, capacity, work, offsets, found);
  region_free(&region);
  return status;
}
