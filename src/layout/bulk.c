#include "layout/bulk.h"

#include <string.h>

#include "layout/eject.h"
#include "layout/orders.h"
#include "layout/subset.h"
#include "step/tuning.h"

struct bulk {
  const struct packing *all;
  struct subset large;
  bool *is_large;             /* by shape */
  uint64_t *offsets, *filled; /* by large; by shape */
};

/* Whatever is at least so large, with the offsets that it has. */
static void select_large(struct bulk *b, uint64_t threshold, const uint64_t *offsets) {
  const struct packing *all = b->all;
  for (int32_t i = 0; i < all->count; i++)
    b->is_large[i] = shape_size(&all->shapes[i], all->spans) >= threshold;
  subset_choose(&b->large, all->shapes, all->count, all->spans, b->is_large);
  for (int32_t k = 0; k < b->large.count; k++) b->offsets[k] = offsets[b->large.shape_of[k]];
}

static neap_status prepare(struct bulk *b, struct region *region) {
  const size_t count = (size_t)b->all->count;
  TRY(subset_create(b->all->shapes, b->all->count, region, &b->large));
  b->is_large = region_alloc(region, count, sizeof *b->is_large);
  b->offsets = region_alloc(region, count, sizeof *b->offsets);
  b->filled = region_alloc(region, count, sizeof *b->filled);
  RETURN_IF(!b->is_large || !b->offsets || !b->filled, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  return NEAP_OK;
}

static neap_status place(struct bulk *b, uint64_t capacity, int64_t work, uint64_t *offsets, bool *found) {
  const struct packing *all = b->all;
  uint64_t height;
  int64_t left = work;
  select_large(b, capacity / BULK_SHARE, offsets);
  const struct packing large = {b->large.shapes, b->large.count, b->large.spans, NULL};
  TRY(place_by_ejection(&large, NULL, capacity, &left, b->offsets, found));
  if (!*found) return NEAP_OK;
  for (int32_t k = 0; k < large.count; k++) b->filled[b->large.shape_of[k]] = b->offsets[k];
  TRY(fill_by_orders(all->shapes, all->count, all->spans, b->is_large, capacity, b->filled, &height));
  left = work;
  if (height > capacity) TRY(place_by_ejection(all, NULL, capacity, &left, b->filled, found));
  if (*found) memcpy(offsets, b->filled, (size_t)all->count * sizeof *offsets);
  return NEAP_OK;
}

neap_status place_by_bulk(const struct packing *packing, uint64_t capacity, int64_t work, uint64_t *offsets,
                          bool *found) {
  struct bulk b = {.all = packing};
  struct region region = {0};
  *found = false;
  if (packing->count == 0) return NEAP_OK;
  neap_status status = prepare(&b, &region);
  if (status == NEAP_OK) status = place(&b, capacity, work, offsets, found);
  region_free(&region);
  return status;
}
