#include "layout/eject.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/region.h"
#include "base/stop.h"
#include "base/vector.h"
#include "step/tuning.h"

/* The offsets, strictly between the two ends, at which a shape would overlap its neighbour. */
struct range {
  int64_t lower, upper;
  int32_t neighbour;
};

/* An end of a range. */
struct edge {
  int64_t at;
  double weight; /* enters; below 0: leaves */
};

struct ejecting {
  const struct shape *shapes;
  int32_t count;
  const struct span *spans;
  const int32_t *heir_of;
  int64_t capacity, work;
  int64_t *offset;       /* by shape; OUT: it has none */
  uint64_t *size;        /* by shape: of its largest span */
  double *bulk, *weight; /* by shape: the cost of displacing it: at first, and now */
  /* Shapes by their first position; and, at every this many of them, those of earlier ones that live on. */
  int32_t *order, *place;
  int64_t *lower, *upper; /* by place in the order: positions */
  int32_t *mark_at;       /* by mark: place in the order */
  int32_t *mark_of;       /* by place: the last mark at or before it */
  size_t *mark_first;     /* by mark, and one more: into the list */
  int32_t mark_count;
  VECTOR(int32_t) living;
  VECTOR(int32_t) out; /* shapes without an offset */
  VECTOR(struct range) ranges;
  VECTOR(struct edge) edges, sorted;
  double weight_at_0; /* of ranges that begin below */
  int32_t ranges_at_0;
  uint32_t random;
};

enum { OUT = -1 };

/* ---- Finding the shapes that live at the same time ---- */

static int compare_starts(const void *a, const void *b, void *context) {
  const struct ejecting *e = context;
  const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
  const int64_t x = e->spans[e->shapes[i].first].lower, y = e->spans[e->shapes[j].first].lower;
  return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

/* Makes marks: one whenever as many shapes began since the last mark as lived there, so both parts of a query
 * take about equally long. */
static neap_status make_marks(struct ejecting *e) {
  enum { LEAST = 16 };
  VECTOR(int32_t) now = {0};
  neap_status status = NEAP_OK;
  int32_t last = -1;
  for (int32_t p = 0; status == NEAP_OK && p < e->count; p++) {
    const size_t lived = e->mark_count > 0 ? e->living.count - e->mark_first[e->mark_count - 1] : 0;
    if (last < 0 || ((size_t)(p - last) >= lived && p - last >= LEAST)) {
      size_t kept = 0;
      for (size_t i = 0; i < now.count; i++)
        if (e->upper[now.data[i]] > e->lower[p]) now.data[kept++] = now.data[i];
      now.count = kept;
      e->mark_at[e->mark_count] = last = p;
      e->mark_first[e->mark_count++] = e->living.count;
      status = vector_reserve(&e->living, e->living.count + kept + 1);
      if (status == NEAP_OK && kept > 0)
        memcpy(e->living.data + e->living.count, now.data, kept * sizeof *now.data);
      if (status == NEAP_OK) e->living.count += kept;
    }
    e->mark_of[p] = e->mark_count - 1;
    if (status == NEAP_OK) status = vector_push(&now, p);
  }
  e->mark_first[e->mark_count] = e->living.count;
  vector_free(&now);
  return status;
}

/* ---- Ranges ---- */

/* Adds a range; only edges from 0 to the highest offset matter. */
static neap_status add_range(struct ejecting *e, int64_t lower, int64_t upper, int64_t highest,
                             int32_t neighbour) {
  if (lower >= upper || lower >= highest || upper <= 0) return NEAP_OK;
  TRY(vector_push(&e->ranges, (struct range){lower, upper, neighbour}));
  TRY(vector_reserve(&e->edges, e->edges.count + 2));
  if (lower >= 0) {
    e->edges.data[e->edges.count++] = (struct edge){lower, e->weight[neighbour]};
  } else {
    e->weight_at_0 += e->weight[neighbour];
    e->ranges_at_0++;
  }
  if (upper <= highest) e->edges.data[e->edges.count++] = (struct edge){upper, -e->weight[neighbour]};
  return NEAP_OK;
}

static neap_status add_neighbour(struct ejecting *e, int32_t i, int32_t j) {
  const struct shape *a = &e->shapes[i], *b = &e->shapes[j];
  const bool tied = e->heir_of != NULL && (e->heir_of[i] == j || e->heir_of[j] == i);
  const int64_t highest = e->capacity - (int64_t)e->size[i];
  e->work--;
  for (int32_t k = a->first; k < a->first + a->count; k++)
    for (int32_t l = b->first; l < b->first + b->count; l++) {
      const struct span *x = &e->spans[k], *y = &e->spans[l];
      if (x->lower >= y->upper || y->lower >= x->upper || x->size == 0 || y->size == 0) continue;
      const int64_t lower = e->offset[j] - (int64_t)x->size, upper = e->offset[j] + (int64_t)y->size;
      if (tied) {
        TRY(add_range(e, lower, e->offset[j], highest, j));
        TRY(add_range(e, e->offset[j], upper, highest, j));
      } else {
        TRY(add_range(e, lower, upper, highest, j));
      }
    }
  return NEAP_OK;
}

static neap_status add_if_met(struct ejecting *e, int32_t i, int32_t p) {
  const int32_t j = e->order[p];
  if (e->upper[p] <= e->lower[e->place[i]] || j == i || e->offset[j] == OUT) return NEAP_OK;
  return add_neighbour(e, i, j);
}

static neap_status find_ranges(struct ejecting *e, int32_t i) {
  const int64_t upper = e->upper[e->place[i]];
  const int32_t mark = e->mark_of[e->place[i]];
  e->ranges.count = e->edges.count = 0;
  e->weight_at_0 = 0;
  e->ranges_at_0 = 0;
  for (size_t k = e->mark_first[mark]; k < e->mark_first[mark + 1]; k++)
    TRY(add_if_met(e, i, e->living.data[k]));
  for (int32_t p = e->mark_at[mark]; p < e->count && e->lower[p] < upper; p++) TRY(add_if_met(e, i, p));
  return NEAP_OK;
}

/* ---- A step ---- */

/* Compares the edges of open ranges: an end comes before a beginning. */
static bool edge_before(const struct edge *a, const struct edge *b) {
  return a->at != b->at ? a->at < b->at : a->weight <= 0 && b->weight > 0;
}

/* Sorts with Shell's sort. */
static void sort_edges(struct edge *edges, size_t count) {
  size_t gap = 1;
  while (gap < count / 9) gap = 3 * gap + 1;
  for (; gap > 0; gap /= 3)
    for (size_t i = gap; i < count; i++) {
      const struct edge edge = edges[i];
      size_t k = i;
      for (; k >= gap && edge_before(&edge, &edges[k - gap]); k -= gap) edges[k] = edges[k - gap];
      edges[k] = edge;
    }
}

enum { BINS = 256 };

/* Sorts edges from the bins of their offsets, where they are nearly in order; most of the time is spent
 * here. */
static neap_status order_edges(struct ejecting *e, int64_t highest) {
  size_t first[BINS + 1] = {0};
  const size_t count = e->edges.count;
  int shift = 0;
  while (highest >> shift >= BINS) shift++;
  TRY(vector_reserve(&e->sorted, count));
  for (size_t k = 0; k < count; k++) first[(e->edges.data[k].at >> shift) + 1]++;
  for (int b = 0; b < BINS; b++) first[b + 1] += first[b];
  for (size_t k = 0; k < count; k++) e->sorted.data[first[e->edges.data[k].at >> shift]++] = e->edges.data[k];
  e->sorted.count = count;
  sort_edges(e->sorted.data, count);
  return NEAP_OK;
}

/* Chooses the place that displaces least; among equal ones, any. */
static neap_status choose_place(struct ejecting *e, int32_t i, int64_t *offset) {
  const int64_t highest = e->capacity - (int64_t)e->size[i];
  TRY(find_ranges(e, i));
  TRY(vector_push(&e->edges, (struct edge){0, 0}));
  TRY(vector_push(&e->edges, (struct edge){highest, 0}));
  TRY(order_edges(e, highest));
  double weight = e->weight_at_0, least = 0;
  int32_t ranges = e->ranges_at_0;
  uint32_t seen = 0;
  const struct edge *edges = e->sorted.data;
  const size_t count = e->sorted.count;
  for (size_t k = 0; k < count;) {
    const int64_t at = edges[k].at;
    for (; k < count && edges[k].at == at && edges[k].weight <= 0; k++) {
      weight += edges[k].weight;
      ranges -= edges[k].weight < 0;
    }
    if (ranges == 0) weight = 0; /* free of what rounding left */
    if (seen == 0 || weight < least) {
      least = weight;
      seen = 0;
    }
    if (weight == least && (weight > 0 ? random_next(&e->random) % ++seen == 0 : seen++ == 0)) *offset = at;
    for (; k < count && edges[k].at == at; k++) {
      weight += edges[k].weight;
      ranges++;
    }
  }
  return NEAP_OK;
}

/* Makes a displaced shape heavier. If one gets too heavy, all weights start anew. */
static void grow_heavier(struct ejecting *e, int32_t i) {
  e->weight[i] *= EJECT_GROWTH;
  if (e->weight[i] <= e->bulk[i] * EJECT_HEAVIEST) return;
  memcpy(e->weight, e->bulk, (size_t)e->count * sizeof *e->weight);
}

static neap_status settle(struct ejecting *e, int32_t i) {
  int64_t offset = 0;
  TRY(choose_place(e, i, &offset));
  for (size_t k = 0; k < e->ranges.count; k++) {
    const struct range *range = &e->ranges.data[k];
    if (offset <= range->lower || offset >= range->upper || e->offset[range->neighbour] == OUT) continue;
    e->offset[range->neighbour] = OUT;
    grow_heavier(e, range->neighbour);
    TRY(vector_push(&e->out, range->neighbour));
  }
  e->offset[i] = offset;
  return NEAP_OK;
}

/* Takes the bulkiest shape that is out. If thousands are out, finding it takes as long as the rest. */
static int32_t take_next(struct ejecting *e) {
  enum { LOOKS = 32 }; /* in the time of a neighbour */
  size_t chosen = 0;
  e->work -= (int64_t)e->out.count / LOOKS;
  for (size_t k = 1; k < e->out.count; k++)
    if (e->bulk[e->out.data[k]] > e->bulk[e->out.data[chosen]]) chosen = k;
  const int32_t i = e->out.data[chosen];
  e->out.data[chosen] = e->out.data[--e->out.count];
  return i;
}

/* ---- From the start ---- */

static void describe_shapes(struct ejecting *e) {
  for (int32_t i = 0; i < e->count; i++) e->order[i] = i;
  qsort_r(e->order, (size_t)e->count, sizeof *e->order, compare_starts, e);
  for (int32_t p = 0; p < e->count; p++) {
    const int32_t i = e->order[p];
    const struct shape *shape = &e->shapes[i];
    e->place[i] = p;
    e->lower[p] = e->spans[shape->first].lower;
    e->upper[p] = e->spans[shape->first + shape->count - 1].upper;
    e->size[i] = shape_size(shape, e->spans);
    e->weight[i] = e->bulk[i] = (double)e->size[i] * sqrt((double)e->upper[p] - (double)e->lower[p]);
  }
}

static neap_status prepare(struct ejecting *e, struct region *region) {
  const size_t count = (size_t)e->count;
  e->offset = region_alloc(region, count, sizeof *e->offset);
  e->size = region_alloc(region, count, sizeof *e->size);
  e->weight = region_alloc(region, count, sizeof *e->weight);
  e->bulk = region_alloc(region, count, sizeof *e->bulk);
  e->order = region_alloc(region, count, sizeof *e->order);
  e->place = region_alloc(region, count, sizeof *e->place);
  e->lower = region_alloc(region, count, sizeof *e->lower);
  e->upper = region_alloc(region, count, sizeof *e->upper);
  e->mark_at = region_alloc(region, count, sizeof *e->mark_at);
  e->mark_of = region_alloc(region, count, sizeof *e->mark_of);
  e->mark_first = region_alloc(region, count + 1, sizeof *e->mark_first);
  RETURN_IF(!e->offset || !e->size || !e->weight || !e->bulk || !e->order || !e->place || !e->lower ||
                !e->upper || !e->mark_at || !e->mark_of || !e->mark_first,
            NEAP_OUT_OF_MEMORY, "layout: out of memory");
  describe_shapes(e);
  return make_marks(e);
}

/* Runs a stage: its shapes join the earlier ones, which may have moved. Only the first stage starts from
 * offsets. */
static neap_status run_stage(struct ejecting *e, const int32_t *stage_of, int32_t stage,
                             const uint64_t *offsets) {
  for (int32_t i = 0; i < e->count; i++) {
    if (stage_of != NULL && stage_of[i] != stage) continue;
    const bool fits = stage == 0 && offsets[i] <= (uint64_t)e->capacity - e->size[i];
    e->offset[i] = fits ? (int64_t)offsets[i] : OUT;
    if (!fits) TRY(vector_push(&e->out, i));
  }
  while (e->out.count > 0 && e->work > 0) {
    TRY(stop_check());
    TRY(settle(e, take_next(e)));
  }
  return NEAP_OK;
}

static neap_status mend(struct ejecting *e, const int32_t *stage_of, uint64_t *offsets, bool *found) {
  int32_t last = 0;
  for (int32_t i = 0; i < e->count; i++) {
    if (e->size[i] > (uint64_t)e->capacity) return NEAP_OK;
    e->offset[i] = OUT;
    if (stage_of != NULL && stage_of[i] > last) last = stage_of[i];
  }
  for (int32_t stage = 0; stage <= last && e->out.count == 0; stage++)
    TRY(run_stage(e, stage_of, stage, offsets));
  *found = e->out.count == 0;
  for (int32_t i = 0; *found && i < e->count; i++) offsets[i] = (uint64_t)e->offset[i];
  return NEAP_OK;
}

neap_status place_by_ejection(const struct packing *packing, const int32_t *stage_of, uint64_t capacity,
                              int64_t *work, uint64_t *offsets, bool *found) {
  *found = false;
  if (packing->count == 0 || capacity > INT64_MAX / 2) return NEAP_OK; /* sums of two fit 63 bits */
  struct ejecting e = {.shapes = packing->shapes,
                       .count = packing->count,
                       .spans = packing->spans,
                       .heir_of = packing->heir_of,
                       .capacity = (int64_t)capacity,
                       .work = *work,
                       .random = 2463534242u};
  struct region region = {0};
  neap_status status = prepare(&e, &region);
  if (status == NEAP_OK) status = mend(&e, stage_of, offsets, found);
  *work = e.work;
  vector_free(&e.living);
  vector_free(&e.out);
  vector_free(&e.ranges);
  vector_free(&e.edges);
  vector_free(&e.sorted);
  region_free(&region);
  return status;
}
