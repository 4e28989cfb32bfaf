#include "layout/tiers.h"

#include <stdbool.h>
#include <string.h>

#include "base/region.h"
#include "layout/exact.h"
#include "layout/orders.h"

struct tiers {
  const struct shape *shapes;
  int32_t count;
  const struct span *spans;
  uint64_t goal;
  int64_t *work;
  uint64_t *size;             /* by shape: of its largest span */
  bool *large;                /* by shape */
  struct shape *large_shapes; /* copies, with their spans */
  struct span *large_spans;
  int32_t *large_of; /* large shape -> shape */
  int32_t large_count;
  uint64_t *found, *filled, *best; /* offsets: by item; by shape */
  uint64_t height;
};

/* False where that is the same as with the threshold before. */
static bool select_large(struct tiers *t, uint64_t threshold) {
  const int32_t before = t->large_count;
  int32_t spans = 0;
  t->large_count = 0;
  for (int32_t i = 0; i < t->count; i++) {
    t->large[i] = t->size[i] >= threshold;
    if (!t->large[i]) continue;
    const struct shape *shape = &t->shapes[i];
    t->large_of[t->large_count] = i;
    t->large_shapes[t->large_count++] = (struct shape){.first = spans, .count = shape->count};
    memcpy(t->large_spans + spans, t->spans + shape->first, (size_t)shape->count * sizeof *t->spans);
    spans += shape->count;
  }
  return t->large_count > before;
}

/* The largest sum of sizes in a section. */
static neap_status find_live(const struct sections *sections, struct region *region, uint64_t *live) {
  uint64_t *load = region_alloc(region, (size_t)sections->count + 1, sizeof *load);
  RETURN_IF(load == NULL, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  *live = 0;
  for (int32_t i = 0; i < sections->item_count; i++)
    for (int32_t k = sections->items[i].first; k < sections->items[i].first + sections->items[i].count; k++) {
      load[sections->pieces[k].lower] +=
          sections->pieces[k].size; /* differences; they wrap, their sums do not */
      load[sections->pieces[k].upper] -= sections->pieces[k].size;
    }
  for (int32_t s = 0; s < sections->count; s++) {
    if (s > 0) load[s] += load[s - 1];
    if (load[s] > *live) *live = load[s];
  }
  return NEAP_OK;
}

/* Puts the small shapes around the large ones that were found. */
static neap_status fill(struct tiers *t, const struct sections *sections) {
  uint64_t height;
  memset(t->filled, 0, (size_t)t->count * sizeof *t->filled);
  for (int32_t i = 0; i < sections->item_count; i++)
    t->filled[t->large_of[sections->items[i].shape]] = t->found[i];
  TRY(fill_by_orders(t->shapes, t->count, t->spans, t->large, t->goal, t->filled, &height));
  if (height >= t->height) return NEAP_OK;
  t->height = height;
  memcpy(t->best, t->filled, (size_t)t->count * sizeof *t->best);
  return NEAP_OK;
}

/* Capacities from the large shapes' live bytes up to the goal: the lower they lie, the more is left on top.
 */
static neap_status try_large(struct tiers *t, struct region *region, int64_t work) {
  enum { STEPS = 2 };
  struct sections sections;
  uint64_t live = 0;
  TRY(sections_make(t->large_shapes, t->large_count, t->large_spans, region, &sections));
  TRY(find_live(&sections, region, &live));
  for (int step = 0; step <= STEPS && live <= t->goal && t->height > t->goal && *t->work > 0; step++) {
    enum search_outcome outcome;
    const int64_t given = work / (STEPS + 1) < *t->work ? work / (STEPS + 1) : *t->work;
    int64_t left = given;
    TRY(search_placement(&sections, live + (t->goal - live) / STEPS * (uint64_t)step, &left, t->found,
                         &outcome));
    *t->work -= given - left;
    if (outcome == SEARCH_FOUND) TRY(fill(t, &sections));
  }
  return NEAP_OK;
}

static neap_status try_shares(struct tiers *t) {
  enum { FIRST = 16, LAST = 2048 };
  for (uint64_t share = FIRST; share <= LAST && t->height > t->goal && *t->work > 0; share *= 2) {
    struct region region = {0};
    if (!select_large(t, t->goal / share)) continue;
    const neap_status status = try_large(t, &region, *t->work / 2);
    region_free(&region);
    TRY(status);
  }
  return NEAP_OK;
}

static neap_status prepare(struct tiers *t, struct region *region) {
  const size_t count = (size_t)t->count,
               span_count = count > 0 ? (size_t)(t->shapes[count - 1].first + t->shapes[count - 1].count) : 0;
  t->size = region_alloc(region, count, sizeof *t->size);
  t->large = region_alloc(region, count, sizeof *t->large);
  t->large_shapes = region_alloc(region, count, sizeof *t->large_shapes);
  t->large_of = region_alloc(region, count, sizeof *t->large_of);
  t->large_spans = region_alloc(region, span_count, sizeof *t->large_spans);
  t->found = region_alloc(region, count, sizeof *t->found);
  t->filled = region_alloc(region, count, sizeof *t->filled);
  RETURN_IF(!t->size || !t->large || !t->large_shapes || !t->large_of || !t->large_spans || !t->found ||
                !t->filled,
            NEAP_OUT_OF_MEMORY, "layout: out of memory");
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
