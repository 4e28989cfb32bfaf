#include "layout/core.h"

#include <string.h>

#include "layout/orders.h"
#include "layout/sections.h"
#include "layout/solver.h"
#include "layout/subset.h"
#include "step/tuning.h"

struct placing {
  const struct packing *all;
  uint64_t capacity;
  int64_t *work;
  int32_t *stage_of; /* by shape: 0 for those of the core */
  bool *is_core;     /* by shape */
  struct subset core;
  int32_t *core_of, *heir_of; /* by shape, in the core; by core */
  uint64_t *core_offsets;
};

/* By shape: the most that lives at a position that it lives at. */
static neap_status find_live(const struct packing *all, struct region *region, uint64_t **live) {
  struct sections sections;
  uint64_t *load;
  TRY(sections_make(all->shapes, all->count, all->spans, region, &sections));
  TRY(sections_load(&sections, region, &load));
  *live = region_alloc(region, (size_t)all->count, sizeof **live);
  RETURN_IF(*live == NULL, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  for (int32_t i = 0; i < sections.item_count; i++) {
    const struct item *item = &sections.items[i];
    for (int32_t s = item->lower; s < item->upper; s++)
      if (load[s] > (*live)[item->shape]) (*live)[item->shape] = load[s];
  }
  return NEAP_OK;
}

/* The core, and stages of the others: equal shares of what may live. */
static neap_status choose_core(struct placing *p, int share, struct region *region) {
  const struct packing *all = p->all;
  const uint64_t least = p->capacity / 100 * (uint64_t)share, width = least / CORE_STAGES + 1;
  uint64_t *live;
  TRY(find_live(all, region, &live));
  for (int32_t i = 0; i < all->count; i++) {
    p->is_core[i] = live[i] >= least;
    p->stage_of[i] = p->is_core[i] ? 0 : 1 + (int32_t)((least - live[i]) / width);
    p->core_of[i] = -1;
  }
  subset_choose(&p->core, all->shapes, all->count, all->spans, p->is_core);
  for (int32_t k = 0; k < p->core.count; k++) p->core_of[p->core.shape_of[k]] = k;
  for (int32_t k = 0; k < p->core.count; k++) {
    const int32_t heir = all->heir_of != NULL ? all->heir_of[p->core.shape_of[k]] : -1;
    p->heir_of[k] = heir >= 0 ? p->core_of[heir] : -1;
  }
  return NEAP_OK;
}

static neap_status place_core(struct placing *p, bool *found) {
  const struct placement_limits limits = {
      .enough = p->capacity, .searched = CORE_SEARCHED, .tiered = LAYOUT_TIERED};
  const struct packing core = {p->core.shapes, p->core.count, p->core.spans, p->heir_of};
  struct placement_result result;
  TRY(place_shapes(p->core.shapes, p->core.count, p->core.spans, &limits, &result));
  for (int32_t k = 0; k < core.count; k++) p->core_offsets[k] = core.shapes[k].offset;
  *found = result.height <= p->capacity;
  return *found ? NEAP_OK : place_by_ejection(&core, NULL, p->capacity, p->work, p->core_offsets, found);
}

static void find_height(const struct packing *all, const uint64_t *offsets, uint64_t *height) {
  *height = 0;
  for (int32_t i = 0; i < all->count; i++) {
    const uint64_t top = offsets[i] + shape_size(&all->shapes[i], all->spans);
    if (top > *height) *height = top;
  }
}

static neap_status place(struct placing *p, uint64_t *offsets, uint64_t *height) {
  const struct packing *all = p->all;
  bool found = false;
  TRY(place_core(p, &found));
  for (int32_t i = 0; i < all->count; i++)
    offsets[i] = p->is_core[i] ? p->core_offsets[p->core_of[i]] : UINT64_MAX;
  if (found) TRY(place_by_ejection(all, p->stage_of, p->capacity, p->work, offsets, &found));
  if (!found)
    return fill_by_orders(all->shapes, all->count, all->spans, p->is_core, p->capacity, offsets, height);
  find_height(all, offsets, height);
  return NEAP_OK;
}

static neap_status prepare(struct placing *p, struct region *region) {
  const size_t count = (size_t)p->all->count;
  TRY(subset_create(p->all->shapes, p->all->count, region, &p->core));
  p->stage_of = region_alloc(region, count, sizeof *p->stage_of);
  p->is_core = region_alloc(region, count, sizeof *p->is_core);
  p->core_of = region_alloc(region, count, sizeof *p->core_of);
  p->heir_of = region_alloc(region, count, sizeof *p->heir_of);
  p->core_offsets = region_alloc(region, count, sizeof *p->core_offsets);
  RETURN_IF(!p->stage_of || !p->is_core || !p->core_of || !p->heir_of || !p->core_offsets, NEAP_OUT_OF_MEMORY,
            "layout: out of memory");
  return NEAP_OK;
}

neap_status place_by_core(const struct packing *packing, int share, uint64_t capacity, int64_t *work,
                          uint64_t *offsets, uint64_t *height) {
  struct placing p = {.all = packing, .capacity = capacity, .work = work};
  struct region region = {0};
  *height = UINT64_MAX;
  neap_status status = prepare(&p, &region);
  if (status == NEAP_OK) status = choose_core(&p, share, &region);
  if (status == NEAP_OK) status = place(&p, offsets, height);
  region_free(&region);
  return status;
}
