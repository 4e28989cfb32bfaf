#include "layout/tiers.h"

#include <stdbool.h>
#include <string.h>

#include "base/region.h"
#include "layout/exact.h"
#include "layout/orders.h"
#include "layout/subset.h"
#include "step/tuning.h"

struct tiers {
  const struct shape *shapes;
  int32_t count;
  const struct span *spans;
  uint64_t goal;
  int64_t *work;
  uint64_t *size; /* by shape: of its largest span */
  bool *is_large; /* by shape */
  struct subset large;
  uint64_t *found, *filled, *best; /* offsets: by item; by shape */
  uint64_t height;
};

/* False where that is the same as with the threshold before. */
static bool select_large(struct tiers *t, uint64_t threshold) {
  const int32_t before = t->large.count;
  for (int32_t i = 0; i < t->count; i++) t->is_large[i] = t->size[i] >= threshold;
  subset_choose(&t->large, t->shapes, t->count, t->spans, t->is_large);
  return t->large.count > before;
}

/* Puts the small shapes around the large ones that were found. */
static neap_status fill(struct tiers *t, const struct sections *sections) {
  uint64_t height;
  memset(t->filled, 0, (size_t)t->count * sizeof *t->filled);
  for (int32_t i = 0; i < sections->item_count; i++)
    t->filled[t->large.shape_of[sections->items[i].shape]] = t->found[i];
  TRY(fill_by_orders(t->shapes, t->count, t->spans, t->is_large, t->goal, t->filled, &height));
  if (height >= t->height) return NEAP_OK;
  t->height = height;
  memcpy(t->best, t->filled, (size_t)t->count * sizeof *t->best);
  return NEAP_OK;
}

/* Capacities from the large shapes' live bytes up to the goal: the lower they lie, the more is left on top.
 */
static neap_status try_large(struct tiers *t, struct region *region, int64_t work) {
  struct sections sections;
  uint64_t live = 0, *load;
  TRY(sections_make(t->large.shapes, t->large.count, t->large.spans, region, &sections));
  TRY(sections_load(&sections, region, &load));
  for (int32_t s = 0; s < sections.count; s++) live = load[s] > live ? load[s] : live;
  for (int step = 0; step <= TIER_STEPS && live <= t->goal && t->height > t->goal && *t->work > 0; step++) {
    enum search_outcome outcome;
    const int64_t given = work / (TIER_STEPS + 1) < *t->work ? work / (TIER_STEPS + 1) : *t->work;
    int64_t left = given;
    TRY(search_placement(&sections, live + (t->goal - live) / TIER_STEPS * (uint64_t)step, &left, t->found,
                         &outcome));
    *t->work -= given - left;
    if (outcome == SEARCH_FOUND) TRY(fill(t, &sections));
  }
  return NEAP_OK;
}

static neap_status try_shares(struct tiers *t) {
  for (uint64_t share = TIER_FIRST_SHARE; share <= TIER_LAST_SHARE && t->height > t->goal && *t->work > 0;
       share *= 2) {
    struct region region = {0};
    if (!select_large(t, t->goal / share)) continue;
    const neap_status status = try_large(t, &region, *t->work / 2);
    region_free(&region);
    TRY(status);
  }
  return NEAP_OK;
}

static neap_status prepare(struct tiers *t, struct region *region) {
  const size_t count = (size_t)t->count;
  TRY(subset_create(t->shapes, t->count, region, &t->large));
  t->size = region_alloc(region, count, sizeof *t->size);
  t->is_large = region_alloc(region, count, sizeof *t->is_large);
  t->found = region_alloc(region, count, sizeof *t->found);
  t->filled = region_alloc(region, count, sizeof *t->filled);
  RETURN_IF(!t->size || !t->is_large || !t->found || !t->filled, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  for (int32_t i = 0; i < t->count; i++) t->size[i] = shape_size(&t->shapes[i], t->spans);
  return NEAP_OK;
}

neap_status place_by_tiers(const struct shape *shapes, int32_t count, const struct span *spans, uint64_t goal,
                           int64_t *work, uint64_t *offsets, uint64_t *height) {
  struct tiers t = {.shapes = shapes,
                    .count = count,
                    .spans = spans,
                    .goal = goal,
                    .work = work,
                    .best = offsets,
                    .height = UINT64_MAX};
  struct region region = {0};
  neap_status status = prepare(&t, &region);
  if (status == NEAP_OK) status = try_shares(&t);
  region_free(&region);
  *height = t.height;
  return status;
}
