#include "layout/layout.h"

#include <stdlib.h>

#include "base/region.h"
#include "base/stop.h"
#include "layout/eject.h"
#include "layout/stages.h"
#include "step/tuning.h"

/* The limits for buffers: some seconds at most. */
static const struct placement_limits FOR_BUFFERS = {
    .searched = 1500000000, .staged = 1500000000, .closing = 1500000000};

/* Returns the largest power of two up to LAYOUT_ALIGNMENT that divides all sizes. */
static uint64_t alignment_of(const struct instance *instances, int32_t count) {
  uint64_t bits = LAYOUT_ALIGNMENT;
  for (int32_t i = 0; i < count; i++) bits |= instances[i].bytes;
  return bits & -bits;
}

/* The current instances, and the shapes that are made of them. */
struct fitting {
  const struct instance *instances;
  int32_t count;
  const struct layout_limits *limits;
  uint64_t alignment;
  bool *apart;   /* by instance: is next to the one whose bytes it might take over */
  int32_t *next; /* by instance: the one that takes its bytes over; -1: none */
  int32_t *shape_of;
  struct shape *shapes;
  struct span *spans;
  int32_t shape_count, span_count;
};

/* Returns the work of ejection (eject.h): some hundredths of a second, since a plan is laid out repeatedly.
 * If the best of the search is not near the capacity, ejection hardly ever helps. */
static int64_t work_for(const struct fitting *f, uint64_t capacity, uint64_t height) {
  const int64_t work = EJECT_WORK + (int64_t)f->count * EJECT_WORK_EACH;
  if (f->limits->effort >= LAYOUT_LARGE) return work * EJECT_LARGE;
  return f->limits->closest && height > capacity + capacity / EJECT_NEAR_SHARE ? work / EJECT_FAR_LESS : work;
}

/* Returns the work if the least is asked for with effort: in proportion to the pairs, a second or two for
 * thousands. */
static int64_t work_for_least(const struct fitting *f) {
  const int64_t usual = work_for(f, 0, 0), pairs = (int64_t)f->count * f->count * EJECT_WORK_EACH_PAIR;
  if (f->limits->effort < LAYOUT_LARGE || pairs < usual) return usual;
  return pairs < EJECT_WORK_MOST ? pairs : EJECT_WORK_MOST;
}

/* Makes shapes: an instance and those that take its bytes over, one after the other, are one shape with a
 * span each. */
static void make_shapes(struct fitting *f) {
  f->shape_count = f->span_count = 0;
  for (int32_t i = 0; i < f->count; i++) f->next[i] = -1;
  for (int32_t i = 0; i < f->count; i++)
    if (f->instances[i].takes_over >= 0 && !f->apart[i]) f->next[f->instances[i].takes_over] = i;
  for (int32_t i = 0; i < f->count; i++) {
    if (f->instances[i].takes_over >= 0 && !f->apart[i]) continue;
    struct shape *shape = &f->shapes[f->shape_count];
    *shape = (struct shape){.first = f->span_count};
    int64_t from = f->instances[i].at;
    for (int32_t k = i; k >= 0; k = f->next[k]) {
      /* Counts the input's bytes until the output takes over, and the output's from the next position on. */
      const int64_t until = (int64_t)f->instances[k].last + 1;
      f->shape_of[k] = f->shape_count;
      if (until <= from) continue; /* it dies where it takes over: the input's bytes are all */
      f->spans[f->span_count++] = (struct span){from, until, f->instances[k].bytes};
      from = until;
      shape->count++;
    }
    f->shape_count++;
  }
}

/* Parts shapes. Taking bytes over ties all offsets of a chain together, which is not needed where both
 * instances have room below the bound. */
static neap_status part_shapes(struct fitting *f, struct region *region, uint64_t bound) {
  int64_t length = 0;
  for (int32_t i = 0; i < f->span_count; i++)
    if (f->spans[i].upper > length) length = f->spans[i].upper;
  uint64_t *live = region_alloc(region, (size_t)length + 1, sizeof *live);
  RETURN_IF(live == NULL, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  for (int32_t i = 0; i < f->span_count; i++) { /* differences first; they wrap, their sums do not */
    live[f->spans[i].lower] += f->spans[i].size;
    live[f->spans[i].upper] -= f->spans[i].size;
  }
  for (int64_t at = 1; at <= length; at++) live[at] += live[at - 1];
  for (int32_t i = 0; i < f->count; i++) {
    const uint64_t bytes = f->instances[i].bytes;
    if (f->instances[i].takes_over < 0 || live[f->instances[i].at] + bytes > bound) continue;
    f->apart[i] = true;
    live[f->instances[i].at] += bytes;
  }
  make_shapes(f);
  return NEAP_OK;
}

static void take_offsets(const struct fitting *f, const uint64_t *offsets, struct layout *out) {
  uint64_t highest = 0;
  for (int32_t i = 0; i < f->count; i++) {
    out->offsets[i] = offsets[f->shape_of[i]];
    const uint64_t top = out->offsets[i] + f->instances[i].bytes;
    if (top > highest) highest = top;
  }
  out->arena_bytes = highest;
}

/* Gives the offset of each shape in the current layout. */
static void give_offsets(const struct fitting *f, const struct layout *in_hand, uint64_t *offsets) {
  for (int32_t i = 0; i < f->count; i++) offsets[f->shape_of[i]] = in_hand->offsets[i];
}

static struct placement_limits limits_for(const struct fitting *f) {
  const int64_t more = f->limits->effort >= LAYOUT_LARGE ? LAYOUT_MORE : 1,
                most = f->limits->effort >= LAYOUT_LARGEST ? LAYOUT_MORE : 1;
  return (struct placement_limits){.enough = f->limits->enough,
                                   .searched = more * LAYOUT_SEARCHED,
                                   .closing = f->limits->closest ? most * LAYOUT_CLOSING : 0};
}

static struct packing packing_of(const struct fitting *f, const int32_t *heir_of) {
  return (struct packing){f->shapes, f->shape_count, f->spans, heir_of};
}

/* Ejects from the current layout and takes the result if it is within the capacity. */
static neap_status eject(struct fitting *f, const struct packing *packing, uint64_t capacity, int64_t work,
                         uint64_t *offsets, struct layout *out) {
  bool found = false;
  give_offsets(f, out, offsets);
  TRY(place_by_ejection(packing, NULL, capacity, &work, offsets, &found));
  if (found) take_offsets(f, offsets, out);
  return NEAP_OK;
}

static uint64_t goal_of(const struct fitting *f, const struct layout *out) {
  const uint64_t enough = f->limits->enough;
  return enough > out->live_bytes ? enough / f->alignment * f->alignment : out->live_bytes;
}

/* Places the parted shapes, the large ones separately, and takes the result if it is lower. */
static neap_status place_parted(struct fitting *f, const struct packing *packing, uint64_t *offsets,
                                struct layout *out) {
  struct placement_limits limits = limits_for(f);
  struct placement_result result;
  limits.staged = f->limits->effort == LAYOUT_LARGEST ? LAYOUT_STAGED_MOST : LAYOUT_STAGED;
  limits.closing = 0;
  TRY(place_shapes(packing, &limits, offsets, &result));
  if (result.height < out->arena_bytes) take_offsets(f, offsets, out);
  return NEAP_OK;
}

/* Places in stages and takes the result if it is not above `highest`. */
static neap_status place_staged(struct fitting *f, const struct packing *packing, enum staging staging,
                                uint64_t threshold, int64_t work, uint64_t highest, uint64_t *offsets,
                                struct layout *out) {
  uint64_t height;
  give_offsets(f, out, offsets);
  TRY(place_in_stages(packing, staging, threshold, goal_of(f, out), &work, offsets, &height));
  if (height <= highest) take_offsets(f, offsets, out);
  return NEAP_OK;
}

/* Places the tightest shapes first. The usual effort tries one threshold: if it fails, others hardly ever
 * help. */
static neap_status place_tight_first(struct fitting *f, const struct packing *packing, uint64_t *offsets,
                                     struct layout *out) {
  static const uint64_t shares[] = {97, 95, 90};
  const int count = f->limits->effort == LAYOUT_LARGEST ? (int)(sizeof shares / sizeof *shares) : 1;
  const uint64_t goal = goal_of(f, out);
  for (int i = 0; i < count && out->arena_bytes > goal; i++)
    TRY(place_staged(f, packing, TIGHT_FIRST, goal / 100 * shares[i], TIGHT_WORK, out->arena_bytes - 1,
                     offsets, out));
  return NEAP_OK;
}

/* Places large shapes first and takes the result only if it is within the goal: a lower one that is not would
 * make plans more expensive. */
static neap_status place_large_first(struct fitting *f, const struct packing *packing, uint64_t *offsets,
                                     struct layout *out) {
  const uint64_t goal = goal_of(f, out);
  return place_staged(f, packing, LARGE_BY_EJECTION, goal / LARGE_MANY_SHARE, work_for(f, 0, 0) / 3, goal,
                      offsets, out);
}

/* Parts the shapes and mends the current layout, in which the parts of a shape still share an offset. If the
 * least is asked for and not found, halves the gap. */
static neap_status mend(struct fitting *f, struct region *region, struct layout *out) {
  uint64_t *offsets = region_alloc(region, (size_t)f->count, sizeof *offsets);
  int32_t *heir_of = region_alloc(region, (size_t)f->count, sizeof *heir_of);
  RETURN_IF(!offsets || !heir_of, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  TRY(part_shapes(f, region, out->live_bytes));
  for (int32_t i = 0; i < f->count; i++) {
    if (f->apart[i])
      heir_of[f->shape_of[i]] = f->shape_of[f->instances[i].takes_over];
    else if (f->instances[i].takes_over < 0)
      heir_of[f->shape_of[i]] = -1;
  }
  const struct packing packing = packing_of(f, heir_of);
  uint64_t capacity = goal_of(f, out);
  const bool many = f->shape_count >= MANY_SHAPES;
  if (!many) TRY(place_tight_first(f, &packing, offsets, out));
  /* The usual effort says how near it comes, so that a repair knows what is lacking; more is for what came
   * near. */
  const bool tells_how_near =
      f->limits->effort == LAYOUT_USUAL ? f->limits->closest : f->limits->effort == LAYOUT_LARGEST;
  if (!many && tells_how_near && out->arena_bytes > capacity) TRY(place_parted(f, &packing, offsets, out));
  if (out->arena_bytes <= capacity) return NEAP_OK;
  const bool least = f->limits->enough <= out->live_bytes;
  const int64_t work = least ? work_for_least(f) : work_for(f, capacity, out->arena_bytes);
  TRY(eject(f, &packing, capacity, work, offsets, out));
  const int halvings = !least                              ? 0
                       : f->limits->effort >= LAYOUT_LARGE ? EJECT_HALVINGS_MORE * EJECT_HALVINGS
                                                           : EJECT_HALVINGS;
  for (int i = 0; i < halvings && out->arena_bytes > capacity + f->alignment; i++) {
    const uint64_t middle = capacity + (out->arena_bytes - capacity) / 2 / f->alignment * f->alignment;
    TRY(eject(f, &packing, middle, work / 2, offsets, out));
    if (out->arena_bytes > middle) capacity = middle;
  }
  return NEAP_OK;
}

static neap_status solve(struct fitting *f, struct region *region, struct layout *out) {
  const size_t n = (size_t)f->count;
  f->apart = region_alloc(region, n, sizeof *f->apart);
  f->shapes = region_alloc(region, n, sizeof *f->shapes);
  f->spans = region_alloc(region, n, sizeof *f->spans);
  f->next = region_alloc(region, n, sizeof *f->next);
  f->shape_of = region_alloc(region, n, sizeof *f->shape_of);
  uint64_t *offsets = region_alloc(region, n, sizeof *offsets);
  RETURN_IF(!f->apart || !f->shapes || !f->spans || !f->next || !f->shape_of || !offsets, NEAP_OUT_OF_MEMORY,
            "layout: out of memory");
  struct placement_result result;
  make_shapes(f);
  const bool many = f->shape_count >= MANY_SHAPES;
  const uint64_t enough = f->limits->enough;
  const struct placement_limits limits = many ? (struct placement_limits){.enough = enough} : limits_for(f);
  const struct packing packing = packing_of(f, NULL);
  TRY(place_shapes(&packing, &limits, offsets, &result));
  out->offsets = malloc((n + 1) * sizeof *out->offsets);
  RETURN_IF_NULL(out->offsets);
  out->live_bytes = result.lower_bound;
  take_offsets(f, offsets, out);
  if (out->arena_bytes <= enough || out->arena_bytes == out->live_bytes) return NEAP_OK;
  if (many) TRY(place_large_first(f, &packing, offsets, out));
  return out->arena_bytes <= goal_of(f, out) ? NEAP_OK : mend(f, region, out);
}

neap_status layout_instances(const struct instance *instances, int32_t count,
                             const struct layout_limits *limits, struct layout *out) {
  struct region region = {0};
  *out = (struct layout){0};
  struct fitting fitting = {
      .instances = instances, .count = count, .limits = limits, .alignment = alignment_of(instances, count)};
  const neap_status status = solve(&fitting, &region, out);
  region_free(&region);
  return status;
}

neap_status neap_layout_solve(neap_buffer *buffers, int64_t count, uint64_t capacity,
                              neap_layout_result *result) {
  NEED(result);
  if (count > 0) NEED(buffers);
  RETURN_IF(count < 0 || count > INT32_MAX / 4, NEAP_INVALID_ARGUMENT,
            "layout: got %lld buffers; the count must be 0 to 2^29 - 1", (long long)count);
  struct region region = {0};
  struct shape *shapes = region_alloc(&region, (size_t)count, sizeof *shapes);
  struct span *spans = region_alloc(&region, (size_t)count, sizeof *spans);
  uint64_t *offsets = region_alloc(&region, (size_t)count, sizeof *offsets);
  neap_status status = NEAP_OK;
  if (!shapes || !spans || !offsets) status = neap_fail(NEAP_OUT_OF_MEMORY, "layout: out of memory");
  for (int64_t i = 0; status == NEAP_OK && i < count; i++) {
    if (buffers[i].upper <= buffers[i].lower)
      status = neap_fail(NEAP_INVALID_ARGUMENT,
                         "layout: buffer %lld: upper must be above lower (lower %lld, upper %lld)",
                         (long long)i, (long long)buffers[i].lower, (long long)buffers[i].upper);
    shapes[i] = (struct shape){.first = (int32_t)i, .count = 1};
    spans[i] = (struct span){buffers[i].lower, buffers[i].upper, buffers[i].size};
  }
  struct placement_result found;
  struct placement_limits limits = FOR_BUFFERS;
  limits.enough = capacity;
  const volatile int *before = stop_listen(NULL);
  const struct packing packing = {shapes, (int32_t)count, spans, NULL};
  if (status == NEAP_OK) status = place_shapes(&packing, &limits, offsets, &found);
  stop_listen(before);
  for (int64_t i = 0; status == NEAP_OK && i < count; i++) buffers[i].offset = offsets[i];
  region_free(&region);
  if (status != NEAP_OK) return status;
  *result = (neap_layout_result){found.height, found.lower_bound, found.height == found.least};
  RETURN_IF(capacity > 0 && found.height > capacity, NEAP_OVER_BUDGET,
            "%s within a capacity of %llu bytes; the least height found is %llu",
            capacity < found.least ? "layout: no layout exists" : "layout: no layout was found",
            (unsigned long long)capacity, (unsigned long long)found.height);
  return NEAP_OK;
}
