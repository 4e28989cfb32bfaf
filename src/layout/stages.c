#include "layout/stages.h"

#include <stdbool.h>
#include <string.h>

#include "layout/eject.h"
#include "layout/exact.h"
#include "layout/orders.h"
#include "layout/sweep.h"
#include "step/tuning.h"

static uint64_t height_of(const struct packing *packing, const uint64_t *offsets) {
  uint64_t height = 0;
  for (int32_t i = 0; i < packing->count; i++) {
    const uint64_t top = offsets[i] + shape_size(&packing->shapes[i], packing->spans);
    if (top > height) height = top;
  }
  return height;
}

/* ---- Keys by which stages are chosen ---- */

static neap_status find_sizes(const struct packing *packing, uint64_t *keys) {
  for (int32_t i = 0; i < packing->count; i++) keys[i] = shape_size(&packing->shapes[i], packing->spans);
  return NEAP_OK;
}

/* Sets each shape's key to the most bytes that live at a position of its life. */
static neap_status find_live(const struct packing *packing, uint64_t *keys) {
  struct region region = {0};
  struct sections sections;
  uint64_t *load;
  neap_status status = sections_make(packing, &region, &sections);
  if (status == NEAP_OK) status = sections_load(&sections, &region, &load);
  for (int32_t i = 0; status == NEAP_OK && i < sections.item_count; i++) {
    const struct item *item = &sections.items[i];
    for (int32_t s = item->lower; s < item->upper; s++)
      if (load[s] > keys[item->shape]) keys[item->shape] = load[s];
  }
  region_free(&region);
  return status;
}

/* ---- The first stage ---- */

struct stages {
  const struct packing *all;
  uint64_t capacity;
  uint64_t *keys;       /* by shape of all: the key of the choice */
  bool *is_first;       /* by shape of all */
  int32_t *stage_of;    /* by shape of all: 0 for the first stage, more for a smaller key */
  int32_t *first_of;    /* by shape of all: the one of the first stage; -1: it is in a later one */
  uint64_t *offsets;    /* by shape of all */
  struct packing first; /* the shapes of the first stage, made of the three arrays that follow */
  struct shape *shapes;
  struct span *spans;
  int32_t *heir_of;
  int32_t *shape_of;       /* by shape of the first stage: the one among all */
  uint64_t *first_offsets; /* by shape of the first stage */
};

/* Searches for the first stage. The attempts' capacities rise from its live bytes to the real one; a low one
 * leaves more room on top. */
static neap_status search_first(struct stages *s, int attempt, int64_t *work, uint64_t *height) {
  struct region region = {0};
  struct sections sections;
  enum search_outcome outcome = SEARCH_NONE;
  uint64_t live;
  TRY(sweep_live(&s->first, &live));
  if (live > s->capacity) return NEAP_OK;
  const uint64_t capacity = live + (s->capacity - live) / LARGE_STEPS * (uint64_t)attempt;
  neap_status status = sections_make(&s->first, &region, &sections);
  if (status == NEAP_OK) status = search_placement(&sections, capacity, work, s->first_offsets, &outcome);
  if (outcome == SEARCH_FOUND) *height = capacity;
  region_free(&region);
  return status;
}

static neap_status eject_first(struct stages *s, int attempt, int64_t *work, uint64_t *height) {
  bool found;
  (void)attempt;
  TRY(place_by_ejection(&s->first, NULL, s->capacity, work, s->first_offsets, &found));
  if (found) *height = s->capacity;
  return NEAP_OK;
}

/* Places the first stage as if it were all; then by ejection from the result. */
static neap_status solve_first(struct stages *s, int attempt, int64_t *work, uint64_t *height) {
  const struct placement_limits limits = {
      .enough = s->capacity, .searched = TIGHT_SEARCHED, .staged = LAYOUT_STAGED};
  struct placement_result result;
  TRY(place_shapes(&s->first, &limits, s->first_offsets, &result));
  *height = result.height;
  return *height <= s->capacity ? NEAP_OK : eject_first(s, attempt, work, height);
}

/* ---- The table ---- */

/* The repair if the others do not fit around the first stage. */
enum mending {
  NOT_MENDED,
  AS_THEY_LIE, /* ejection starts from all of them */
  IN_STAGES    /* ejection starts from the first stage, and the others follow by falling key */
};

struct staging_row {
  neap_status (*find_keys)(const struct packing *packing, uint64_t *keys); /* by shape, from 0 on */
  /* Sets the offsets and the height of the first stage, if it finds any; within `work`, which falls. */
  neap_status (*place_first)(struct stages *s, int attempt, int64_t *work, uint64_t *height);
  int attempts; /* at the first stage, with equal shares of the work */
  enum mending mending;
};

static const struct staging_row rows[STAGINGS] = {
    [LARGE_BY_SEARCH] = {find_sizes, search_first, LARGE_STEPS + 1, NOT_MENDED},
    [LARGE_BY_EJECTION] = {find_sizes, eject_first, 1, AS_THEY_LIE},
    [TIGHT_FIRST] = {find_live, solve_first, 1, IN_STAGES},
};

/* ---- Stages ---- */

/* Allocates a first stage of any size. */
static neap_status prepare_stages(struct stages *s, struct region *region) {
  const size_t count = (size_t)s->all->count;
  s->keys = region_alloc(region, count, sizeof *s->keys);
  s->is_first = region_alloc(region, count, sizeof *s->is_first);
  s->stage_of = region_alloc(region, count, sizeof *s->stage_of);
  s->first_of = region_alloc(region, count, sizeof *s->first_of);
  s->shapes = region_alloc(region, count, sizeof *s->shapes);
  s->spans = region_alloc(region, (size_t)span_count(s->all), sizeof *s->spans);
  s->heir_of = region_alloc(region, count, sizeof *s->heir_of);
  s->shape_of = region_alloc(region, count, sizeof *s->shape_of);
  s->first_offsets = region_alloc(region, count, sizeof *s->first_offsets);
  s->offsets = region_alloc(region, count, sizeof *s->offsets);
  RETURN_IF(!s->keys || !s->is_first || !s->stage_of || !s->first_of || !s->shapes || !s->spans ||
                !s->heir_of || !s->shape_of || !s->first_offsets || !s->offsets,
            NEAP_OUT_OF_MEMORY, "layout: out of memory");
  return NEAP_OK;
}

/* Puts shapes whose key is at least the threshold into the first stage. The later stages are equal shares of
 * the keys below it. */
static void choose_first(struct stages *s, uint64_t threshold, const uint64_t *offsets) {
  const struct packing *all = s->all;
  const uint64_t width = threshold / LATER_STAGES + 1;
  int32_t chosen = 0, filled = 0;
  for (int32_t i = 0; i < all->count; i++) {
    const struct shape *shape = &all->shapes[i];
    s->is_first[i] = s->keys[i] >= threshold;
    s->stage_of[i] = s->is_first[i] ? 0 : 1 + (int32_t)((threshold - s->keys[i]) / width);
    s->first_of[i] = s->is_first[i] ? chosen : -1;
    if (!s->is_first[i]) continue;
    memcpy(s->spans + filled, all->spans + shape->first, (size_t)shape->count * sizeof *s->spans);
    s->shapes[chosen] = (struct shape){filled, shape->count};
    s->first_offsets[chosen] = offsets[i];
    s->shape_of[chosen++] = i;
    filled += shape->count;
  }
  for (int32_t k = 0; k < chosen; k++) {
    const int32_t heir = all->heir_of != NULL ? all->heir_of[s->shape_of[k]] : -1;
    s->heir_of[k] = heir >= 0 ? s->first_of[heir] : -1;
  }
  s->first = (struct packing){s->shapes, chosen, s->spans, s->heir_of};
}

/* Places the others around the first stage, which is fixed. */
static neap_status place_others(struct stages *s, enum mending mending, int64_t *work, uint64_t *height) {
  bool found = false;
  for (int32_t i = 0; i < s->all->count; i++) s->offsets[i] = UINT64_MAX;
  for (int32_t k = 0; k < s->first.count; k++) s->offsets[s->shape_of[k]] = s->first_offsets[k];
  TRY(place_by_orders(s->all, s->is_first, s->capacity, s->offsets, height));
  if (*height <= s->capacity || mending == NOT_MENDED) return NEAP_OK;
  const int32_t *stage_of = mending == IN_STAGES ? s->stage_of : NULL;
  TRY(place_by_ejection(s->all, stage_of, s->capacity, work, s->offsets, &found));
  if (found) *height = height_of(s->all, s->offsets);
  return NEAP_OK;
}

/* Takes the lowest result of the attempts. */
static neap_status place_stages(struct stages *s, const struct staging_row *row, int64_t *work,
                                uint64_t *offsets, uint64_t *height) {
  const int64_t given = *work / row->attempts;
  for (int attempt = 0; attempt < row->attempts; attempt++) {
    uint64_t first = UINT64_MAX, reached = UINT64_MAX;
    int64_t left = given;
    if (*height <= s->capacity) break;
    TRY(row->place_first(s, attempt, &left, &first));
    if (first < UINT64_MAX)
      TRY(place_others(s, first <= s->capacity ? row->mending : NOT_MENDED, &left, &reached));
    *work -= given - left;
    if (reached >= *height) continue;
    *height = reached;
    memcpy(offsets, s->offsets, (size_t)s->all->count * sizeof *offsets);
  }
  return NEAP_OK;
}

neap_status place_in_stages(const struct packing *packing, enum staging staging, uint64_t threshold,
                            uint64_t capacity, int64_t *work, uint64_t *offsets, uint64_t *height) {
  const struct staging_row *row = &rows[staging];
  struct stages s = {.all = packing, .capacity = capacity};
  struct region region = {0};
  *height = UINT64_MAX;
  neap_status status = prepare_stages(&s, &region);
  if (status == NEAP_OK) status = row->find_keys(packing, s.keys);
  if (status == NEAP_OK) choose_first(&s, threshold, offsets);
  if (status == NEAP_OK) status = place_stages(&s, row, work, offsets, height);
  region_free(&region);
  return status;
}

/* ---- All at once ---- */

struct placing {
  const struct packing *packing;
  struct sections sections;
  uint64_t unit;          /* divides every size, so every height */
  uint64_t *tried, *best; /* offsets, by shape */
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

static void keep_lower(struct placing *p, uint64_t height) {
  if (height >= p->result->height) return;
  p->result->height = height;
  memcpy(p->best, p->tried, (size_t)p->packing->count * sizeof *p->best);
}

/* Searches within a capacity and takes a placement or a proof. `work` falls by the work used. */
static neap_status try_capacity(struct placing *p, uint64_t capacity, int64_t *work) {
  enum search_outcome outcome;
  TRY(search_placement(&p->sections, capacity, work, p->tried, &outcome));
  if (outcome == SEARCH_NONE) p->result->least = capacity + p->unit;
  if (outcome == SEARCH_FOUND) keep_lower(p, height_of(p->packing, p->tried));
  return NEAP_OK;
}

/* Places shapes of at least a share of the goal first, with smaller and smaller shares; each gets half of the
 * work that is left. */
static neap_status try_stages(struct placing *p, uint64_t goal, int64_t work) {
  int32_t before = 0;
  for (uint64_t share = LARGE_FIRST_SHARE; share <= LARGE_LAST_SHARE && p->result->height > goal && work > 0;
       share *= 2) {
    int32_t large = 0;
    for (int32_t i = 0; i < p->packing->count; i++)
      large += shape_size(&p->packing->shapes[i], p->packing->spans) >= goal / share;
    if (large == before) continue;
    before = large;
    uint64_t height;
    int64_t left = work / 2;
    TRY(place_in_stages(p->packing, LARGE_BY_SEARCH, goal / share, goal, &left, p->tried, &height));
    keep_lower(p, height);
    work -= work / 2 - left;
  }
  return NEAP_OK;
}

/* Halves the gap between the capacity that is not reached and the one that is. */
static neap_status close_gap(struct placing *p, uint64_t missed, int64_t work) {
  const int64_t share = work / CLOSE_SHARES + 1;
  while (work > 0 && p->result->height - missed > p->unit) {
    const uint64_t middle = missed + (p->result->height - missed) / p->unit / 2 * p->unit;
    const int64_t given = share < work ? share : work;
    int64_t left = given;
    TRY(try_capacity(p, middle, &left));
    work -= given - left;
    if (p->result->height > middle) missed = middle;
  }
  return NEAP_OK;
}

static neap_status place(struct placing *p, struct region *region, const struct placement_limits *limits) {
  const struct packing *packing = p->packing;
  struct placement_result *result = p->result;
  uint64_t height;
  TRY(sweep_live(packing, &result->lower_bound));
  result->least = result->lower_bound;
  result->height = UINT64_MAX;
  for (int32_t k = 0; k < span_count(packing); k++)
    p->unit = greatest_divisor(p->unit, packing->spans[k].size);
  uint64_t goal = limits->enough > result->lower_bound ? limits->enough : result->lower_bound;
  if (goal == UINT64_MAX) goal--; /* which means no height at all */
  if (p->unit > 0) goal = goal / p->unit * p->unit;
  p->tried = region_alloc(region, (size_t)packing->count, sizeof *p->tried);
  RETURN_IF(!p->tried, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  TRY(sweep_place(packing, p->tried, &height));
  keep_lower(p, height);
  if (height <= goal || (packing->count > SWEPT_ONLY_SHAPES && height < UINT64_MAX)) return NEAP_OK;
  TRY(place_by_orders(packing, NULL, goal, p->tried, &height));
  keep_lower(p, height);
  if (height <= goal) return NEAP_OK;
  if (limits->searched > 0 || limits->closing > 0) TRY(sections_make(packing, region, &p->sections));
  int64_t work = limits->searched;
  if (work > 0) TRY(try_capacity(p, goal, &work));
  if (result->height > goal && limits->staged > 0) TRY(try_stages(p, goal, limits->staged));
  if (result->height > goal && limits->closing > 0) TRY(close_gap(p, goal, limits->closing));
  RETURN_IF(result->height == UINT64_MAX, NEAP_TOO_LARGE, "layout: no layout below 2^64 - 1 bytes was found");
  return NEAP_OK;
}

neap_status place_shapes(const struct packing *packing, const struct placement_limits *limits,
                         uint64_t *offsets, struct placement_result *result) {
  *result = (struct placement_result){0};
  if (packing->count == 0) return NEAP_OK;
  struct placing p = {.packing = packing, .best = offsets, .result = result};
  struct region region = {0};
  const neap_status status = place(&p, &region, limits);
  region_free(&region);
  return status;
}
