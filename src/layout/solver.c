#include "layout/solver.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "layout/exact.h"
#include "layout/orders.h"
#include "layout/sweep.h"
#include "layout/tiers.h"
#include "step/tuning.h"

/* ---- The lower bound ---- */

struct event {
  int64_t at;
  uint64_t size;
  bool ends;
};

static int compare_events(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return (int)y->ends - (int)x->ends; /* half-open: what ends makes room first */
}

/* The largest sum of sizes at one position. */
static neap_status find_lower_bound(const struct span *spans, int32_t count, uint64_t *bound) {
  struct event *events = calloc((size_t)count * 2 + 1, sizeof *events);
  RETURN_IF_NULL(events);
  for (int32_t i = 0; i < count; i++) {
    events[2 * (size_t)i] = (struct event){spans[i].lower, spans[i].size, false};
    events[2 * (size_t)i + 1] = (struct event){spans[i].upper, spans[i].size, true};
  }
  qsort(events, (size_t)count * 2, sizeof *events, compare_events);
  uint64_t live = 0;
  bool overflow = false;
  *bound = 0;
  for (size_t i = 0; i < 2 * (size_t)count; i++) {
    if (events[i].ends)
      live -= events[i].size;
    else
      overflow = overflow || __builtin_add_overflow(live, events[i].size, &live);
    if (live > *bound) *bound = live;
  }
  free(events);
  RETURN_IF(overflow || *bound == UINT64_MAX, NEAP_TOO_LARGE,
            "layout: the sizes of buffers that live at once overflow 64 bits");
  return NEAP_OK;
}

/* ---- The solver ---- */

struct solving {
  struct shape *shapes;
  int32_t count;
  const struct span *spans;
  struct sections sections;
  uint64_t unit;          /* divides every size, so every height */
  uint64_t *tried, *best; /* offsets, by item or shape; by shape */
  struct placement_result *result;
};

static uint64_t greatest_divisor(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void keep_lower(struct solving *s, uint64_t height) {
  if (height >= s->result->height) return;
  s->result->height = height;
  memcpy(s->best, s->tried, (size_t)s->count * sizeof *s->best);
}

/* The orders, or the climb. */
static neap_status try_orders(struct solving *s, uint64_t goal, int64_t climbed) {
  uint64_t height;
  TRY(place_by_orders(s->shapes, s->count, s->spans, goal, climbed, s->tried, &height));
  keep_lower(s, height);
  return NEAP_OK;
}

static neap_status try_sweep(struct solving *s) {
  uint64_t height;
  TRY(sweep_place(s->shapes, s->count, s->spans, s->tried, &height));
  keep_lower(s, height);
  return NEAP_OK;
}

static neap_status try_tiers(struct solving *s, uint64_t goal, int64_t work) {
  uint64_t height;
  TRY(place_by_tiers(s->shapes, s->count, s->spans, goal, &work, s->tried, &height));
  keep_lower(s, height);
  return NEAP_OK;
}

/* Searches within a capacity and takes over what is found or proven. `work` falls by what was used. */
static neap_status try_capacity(struct solving *s, uint64_t capacity, int64_t *work) {
  enum search_outcome outcome;
  TRY(search_placement(&s->sections, capacity, work, s->tried, &outcome));
  if (outcome == SEARCH_NONE) s->result->least = capacity + s->unit;
  if (outcome != SEARCH_FOUND) return NEAP_OK;
  memset(s->best, 0, (size_t)s->count * sizeof *s->best);
  s->result->height = 0;
  for (int32_t i = 0; i < s->sections.item_count; i++) {
    const struct item *item = &s->sections.items[i];
    s->best[item->shape] = s->tried[i];
    if (s->tried[i] + item->most > s->result->height) s->result->height = s->tried[i] + item->most;
  }
  return NEAP_OK;
}

/* Halves the gap between what is not found and what is. */
static neap_status close_gap(struct solving *s, uint64_t missed, int64_t work) {
  const int64_t share = work / CLOSE_SHARES + 1;
  while (work > 0 && s->result->height - missed > s->unit) {
    const uint64_t middle = missed + (s->result->height - missed) / s->unit / 2 * s->unit;
    const int64_t given = share < work ? share : work;
    int64_t left = given;
    TRY(try_capacity(s, middle, &left));
    work -= given - left;
    if (s->result->height > middle) missed = middle;
  }
  return NEAP_OK;
}

static neap_status solve(struct solving *s, struct region *region, const struct placement_limits *limits) {
  const struct shape *last = &s->shapes[s->count - 1];
  struct placement_result *result = s->result;
  TRY(find_lower_bound(s->spans, last->first + last->count, &result->lower_bound));
  result->least = result->lower_bound;
  result->height = UINT64_MAX;
  for (int32_t i = 0; i < last->first + last->count; i++)
    s->unit = greatest_divisor(s->unit, s->spans[i].size);
  uint64_t goal = limits->enough > result->lower_bound ? limits->enough : result->lower_bound;
  if (goal == UINT64_MAX) goal--; /* which stands for no height at all */
  if (s->unit > 0) goal = goal / s->unit * s->unit;
  s->tried = region_alloc(region, (size_t)s->count, sizeof *s->tried);
  s->best = region_alloc(region, (size_t)s->count, sizeof *s->best);
  RETURN_IF(!s->tried || !s->best, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  TRY(try_sweep(s));
  if (result->height <= goal || (s->count > SWEPT_ONLY_SHAPES && result->height < UINT64_MAX)) return NEAP_OK;
  TRY(try_orders(s, goal, 0));
  if (result->height <= goal) return NEAP_OK;
  if (limits->searched > 0 || limits->closing > 0)
    TRY(sections_make(s->shapes, s->count, s->spans, region, &s->sections));
  int64_t work = limits->searched;
  if (work > 0) TRY(try_capacity(s, goal, &work));
  if (result->height > goal && limits->tiered > 0) TRY(try_tiers(s, goal, limits->tiered));
  if (result->height > goal && limits->climbed > 0) TRY(try_orders(s, goal, limits->climbed));
  if (result->height > goal && limits->closing > 0) TRY(close_gap(s, goal, limits->closing));
  RETURN_IF(result->height == UINT64_MAX, NEAP_TOO_LARGE, "layout: no layout below 2^64 - 1 bytes was found");
  return NEAP_OK;
}

neap_status place_shapes(struct shape *shapes, int32_t count, const struct span *spans,
                         const struct placement_limits *limits, struct placement_result *result) {
  *result = (struct placement_result){0};
  if (count == 0) return NEAP_OK;
  struct solving s = {.shapes = shapes, .count = count, .spans = spans, .result = result};
  struct region region = {0};
  const neap_status status = solve(&s, &region, limits);
  for (int32_t i = 0; status == NEAP_OK && i < count; i++) shapes[i].offset = s.best[i];
  region_free(&region);
  return status;
}
