#include "layout/orders.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
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

/* Placed spans by rising offset: those that touch a part of the time. */
struct shelf {
  VECTOR(struct block) blocks;
};

struct solver {
  const struct shape *shapes;
  int32_t count;
  const struct span *spans;
  int64_t start;  /* of time */
  uint64_t width; /* positions a bucket covers */
  int buckets;
  struct shelf bucket[BUCKETS];
  const bool *fixed; /* by shape: has its offset already; NULL: none has */
  uint64_t *offset;  /* by shape */
  double *key;       /* by shape: larger is placed earlier */
};

static int bucket_of(const struct solver *s, int64_t position) {
  return (int)(((uint64_t)position - (uint64_t)s->start) / s->width);
}

/* The lowest offset from `offset` on at which the span meets nothing on the shelf. */
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

/* The same in all parts of the time that the span touches. */
static uint64_t lowest_free_in_all(const struct solver *s, const struct span *span, uint64_t offset) {
  const int first = bucket_of(s, span->lower), last = bucket_of(s, span->upper - 1);
  for (int b = first, agreed = 0; agreed <= last - first; b = b < last ? b + 1 : first) {
    const uint64_t next = lowest_free(&s->bucket[b], span, offset);
    agreed = next == offset ? agreed + 1 : 1;
    offset = next;
  }
  return offset;
}

/* `fits`: whether the top is below 2^64. */
static neap_status place(struct solver *s, int32_t i, bool *fits) {
  const struct shape *shape = &s->shapes[i];
  uint64_t offset = is_fixed(s, i) ? s->offset[i] : 0;
  /* Where one span moves up, the others have to be looked at again. */
  for (bool moved = !is_fixed(s, i); moved;) {
    moved = false;
    for (int32_t k = shape->first; k < shape->first + shape->count; k++) {
      const struct span *span = &s->spans[k];
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
    const struct span *span = &s->spans[k];
    if (span->size == 0) continue;
    const struct block block = {offset, offset + span->size, span->lower, span->upper};
    for (int b = bucket_of(s, span->lower); b <= bucket_of(s, span->upper - 1); b++)
      TRY(put(&s->bucket[b], block));
  }
  return NEAP_OK;
}

static uint64_t top_of(const struct solver *s, int32_t i) {
  return s->offset[i] + shape_size(&s->shapes[i], s->spans);
}

/* `height`: UINT64_MAX where an offset gets too large. */
static neap_status place_in_order(struct solver *s, const int32_t *order, uint64_t *height) {
  for (int b = 0; b < s->buckets; b++) s->bucket[b].blocks.count = 0;
  *height = 0;
  for (int32_t i = 0; i < s->count; i++) {
    bool fits = true;
    TRY(stop_check());
    TRY(place(s, order[i], &fits));
    if (!fits) {
      *height = UINT64_MAX;
      return NEAP_OK;
    }
    const uint64_t top = top_of(s, order[i]);
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

static void rank(struct solver *s, enum order order) {
  for (int32_t i = 0; i < s->count; i++) {
    const struct shape *shape = &s->shapes[i];
    const struct span *first = &s->spans[shape->first], *last = &s->spans[shape->first + shape->count - 1];
    const double length = (double)last->upper - (double)first->lower,
                 size = (double)shape_size(shape, s->spans);
    const double keys[ORDERS] = {size, size * length, length, -(double)first->lower, (double)last->upper};
    s->key[i] = is_fixed(s, i) ? INFINITY : keys[order];
  }
}

/* ---- Climbing ---- */

struct climb {
  struct solver *solver;
  int32_t *order;
  uint64_t goal, best; /* a height that ends the search; the least so far */
  uint64_t *best_offsets;
  uint32_t random; /* xorshift: the search is the same every time */
};

/* Places all by the keys. `overflow`: what sticks out above the goal, added up. */
static neap_status try_keys(struct climb *x, double *overflow) {
  struct solver *s = x->solver;
  uint64_t height;
  for (int32_t i = 0; i < s->count; i++) x->order[i] = i;
  qsort_r(x->order, (size_t)s->count, sizeof *x->order, compare_keys, s->key);
  TRY(place_in_order(s, x->order, &height));
  *overflow = height == UINT64_MAX ? INFINITY : 0;
  if (height == UINT64_MAX) return NEAP_OK;
  for (int32_t i = 0; i < s->count; i++)
    if (top_of(s, i) > x->goal) *overflow += (double)(top_of(s, i) - x->goal);
  if (height < x->best) {
    x->best = height;
    for (int32_t i = 0; i < s->count; i++) x->best_offsets[i] = s->offset[i];
  }
  return NEAP_OK;
}

static bool overlap_in_time(const struct solver *s, int32_t a, int32_t b) {
  const struct span *spans = s->spans;
  const struct shape *x = &s->shapes[a], *y = &s->shapes[b];
  return spans[x->first].lower < spans[y->first + y->count - 1].upper &&
         spans[y->first].lower < spans[x->first + x->count - 1].upper;
}

/* One of those that stick out, and one that lives at the same time and was placed before it: -1 where there
 * is none. */
static int32_t choose_move(struct climb *x, int32_t *before) {
  const struct solver *s = x->solver;
  int32_t chosen = -1, seen = 0;
  for (int32_t i = 0; i < s->count; i++)
    if (top_of(s, i) > x->goal && random_next(&x->random) % (uint32_t)++seen == 0) chosen = i;
  if (chosen < 0) return -1;
  *before = -1;
  seen = 0;
  for (int32_t i = 0; i < s->count; i++)
    if (i != chosen && s->key[i] >= s->key[chosen] && overlap_in_time(s, i, chosen) &&
        random_next(&x->random) % (uint32_t)++seen == 0)
      *before = i;
  return *before < 0 ? -1 : chosen;
}

/* Shapes that stick out move before others until nothing does, or the moves are used up. */
static neap_status climb(struct climb *x, int64_t moves) {
  struct solver *s = x->solver;
  double overflow, next;
  TRY(try_keys(x, &overflow));
  for (int64_t m = 0; m < moves && x->best > x->goal; m++) {
    int32_t before = -1;
    const int32_t i = choose_move(x, &before);
    if (i < 0) break;
    const double old = s->key[i];
    s->key[i] = s->key[before] + (s->key[before] > 0 ? s->key[before] : 1) * 1e-9 * (double)(1 + m % 5);
    TRY(try_keys(x, &next));
    /* A little worse is taken now and then, the less the later. */
    const double slack = 1 + 0.3 * (1 - (double)m / (double)moves) * (random_next(&x->random) % 4 == 0);
    if (next <= overflow * slack)
      overflow = next;
    else
      s->key[i] = old;
  }
  return NEAP_OK;
}

static neap_status try_orders(struct solver *s, uint64_t goal, int64_t climbed, uint64_t *best_offsets,
                              uint64_t *best) {
  struct climb x = {.solver = s,
                    .goal = goal,
                    .best = UINT64_MAX,
                    .best_offsets = best_offsets,
                    .random = 2463534242u,
                    .order = malloc(((size_t)s->count + 1) * sizeof *x.order)};
  RETURN_IF_NULL(x.order);
  neap_status status = NEAP_OK;
  double overflow;
  const int orders = s->count > MANY_SHAPES ? BY_AREA + 1 : ORDERS;
  for (int o = 0; status == NEAP_OK && climbed == 0 && o < orders && x.best > x.goal; o++) {
    rank(s, (enum order)o);
    status = try_keys(&x, &overflow);
  }
  /* Work is counted in placed shapes, so that the result does not hang on the clock. */
  const int64_t moves = climbed / (s->count + 1) + 10 < 800 ? climbed / (s->count + 1) + 10 : 800;
  static const enum order starts[] = {BY_AREA, BY_SIZE, BY_LENGTH};
  for (int i = 0; status == NEAP_OK && climbed > 0 && i < 3 && x.best > x.goal; i++) {
    rank(s, starts[i]);
    status = climb(&x, moves);
  }
  free(x.order);
  *best = x.best;
  return status;
}

static neap_status solve(struct solver *s, struct region *region, uint64_t goal, int64_t climbed,
                         uint64_t *offsets, uint64_t *height) {
  s->key = region_alloc(region, (size_t)s->count, sizeof *s->key);
  s->offset = region_alloc(region, (size_t)s->count, sizeof *s->offset);
  RETURN_IF(!s->key || !s->offset, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  int64_t end = INT64_MIN;
  s->start = INT64_MAX;
  for (int32_t i = 0; i < s->count; i++)
    for (int32_t k = s->shapes[i].first; k < s->shapes[i].first + s->shapes[i].count; k++) {
      if (s->spans[k].lower < s->start) s->start = s->spans[k].lower;
      if (s->spans[k].upper > end) end = s->spans[k].upper;
    }
  /* A shape is entered in every bucket that it lives in: few shapes are looked through faster than entered.
   */
  const int32_t wanted = s->count / SHAPES_A_BUCKET + 1;
  s->buckets = wanted < BUCKETS ? wanted : BUCKETS;
  s->width = ((uint64_t)end - (uint64_t)s->start) / (uint64_t)s->buckets;
  if (s->width < UINT64_MAX) s->width++;
  for (int32_t i = 0; s->fixed != NULL && i < s->count; i++) s->offset[i] = offsets[i];
  return try_orders(s, goal, climbed, offsets, height);
}

static neap_status solve_and_free(struct solver s, uint64_t goal, int64_t climbed, uint64_t *offsets,
                                  uint64_t *height) {
  struct region region = {0};
  const neap_status status = solve(&s, &region, goal, climbed, offsets, height);
  for (int b = 0; b < BUCKETS; b++) vector_free(&s.bucket[b].blocks);
  region_free(&region);
  return status;
}

neap_status place_by_orders(const struct shape *shapes, int32_t count, const struct span *spans,
                            uint64_t goal, int64_t climbed, uint64_t *offsets, uint64_t *height) {
  return solve_and_free((struct solver){.shapes = shapes, .count = count, .spans = spans}, goal, climbed,
                        offsets, height);
}

neap_status fill_by_orders(const struct shape *shapes, int32_t count, const struct span *spans,
                           const bool *fixed, uint64_t goal, uint64_t *offsets, uint64_t *height) {
  return solve_and_free((struct solver){.shapes = shapes, .count = count, .spans = spans, .fixed = fixed},
                        goal, 0, offsets, height);
}
