#include "layout/sections.h"

#include <stdbool.h>
#include <stdlib.h>

/* A position at which a span begins or ends, and the section from there on. */
struct point {
  int64_t at;
  bool begins, ends, opens;
  int32_t section;
};

static int compare_points(const void *a, const void *b) {
  const int64_t x = ((const struct point *)a)->at, y = ((const struct point *)b)->at;
  return (x > y) - (x < y);
}

static const struct point *find_point(const struct point *points, size_t count, int64_t at) {
  const struct point key = {.at = at};
  return bsearch(&key, points, count, sizeof *points, compare_points);
}

/* Sorts the points, merges those at the same position and numbers the sections. */
static size_t number_sections(struct point *points, size_t count, int32_t *sections) {
  size_t kept = 0;
  qsort(points, count, sizeof *points, compare_points);
  for (size_t i = 0; i < count; i++) {
    if (kept == 0 || points[kept - 1].at != points[i].at) {
      points[kept++] = points[i];
      continue;
    }
    points[kept - 1].begins |= points[i].begins;
    points[kept - 1].ends |= points[i].ends;
  }
  bool ended = false;
  int32_t section = 0;
  for (size_t i = 0; i < kept; i++) {
    ended |= points[i].ends; /* half-open: what ends here does not meet what begins here */
    points[i].opens = points[i].begins && ended;
    if (points[i].opens) {
      section++;
      ended = false;
    }
    points[i].section = section;
  }
  *sections = kept > 0 ? section + 1 : 0;
  return kept;
}

static void add_item(struct sections *out, const struct shape *shape, const struct span *spans,
                     const struct point *points, size_t point_count) {
  struct item *item = &out->items[out->item_count];
  int32_t filled = item->first;
  for (int32_t k = shape->first; k < shape->first + shape->count; k++) {
    if (spans[k].size == 0) continue;
    const struct point *from = find_point(points, point_count, spans[k].lower),
                       *to = find_point(points, point_count, spans[k].upper);
    const struct piece piece = {from->section, to->opens ? to->section : to->section + 1, spans[k].size};
    if (filled > item->first && out->pieces[filled - 1].upper < piece.lower) {
      out->pieces[filled] = (struct piece){out->pieces[filled - 1].upper, piece.lower, 0};
      filled++;
    }
    out->pieces[filled++] = piece;
    item->length += (double)spans[k].upper - (double)spans[k].lower;
  }
  item->count = filled - item->first;
  if (item->count == 0) return;
  item->lower = out->pieces[item->first].lower;
  item->upper = out->pieces[filled - 1].upper;
  item->least = UINT64_MAX;
  for (int32_t k = item->first; k < filled; k++) {
    if (out->pieces[k].size > 0 && out->pieces[k].size < item->least) item->least = out->pieces[k].size;
    if (out->pieces[k].size > item->most) item->most = out->pieces[k].size;
  }
  out->covered += item->upper - item->lower;
  out->item_count++;
}

static int compare_alike(const void *a, const void *b, void *context) {
  const struct sections *sections = context;
  const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
  const struct item *x = &sections->items[i], *y = &sections->items[j];
  if (x->count != y->count) return x->count - y->count;
  for (int32_t k = 0; k < x->count; k++) {
    const struct piece *p = &sections->pieces[x->first + k], *q = &sections->pieces[y->first + k];
    if (p->lower != q->lower) return p->lower - q->lower;
    if (p->upper != q->upper) return p->upper - q->upper;
    if (p->size != q->size) return p->size < q->size ? -1 : 1;
  }
  return 0;
}

static int compare_items(const void *a, const void *b, void *context) {
  const int alike = compare_alike(a, b, context);
  return alike != 0 ? alike : *(const int32_t *)a - *(const int32_t *)b;
}

static void find_twins(struct sections *sections, int32_t *order) {
  for (int32_t i = 0; i < sections->item_count; i++) order[i] = i;
  qsort_r(order, (size_t)sections->item_count, sizeof *order, compare_items, sections);
  for (int32_t i = 0; i < sections->item_count; i++)
    sections->items[order[i]].twin =
        i > 0 && compare_alike(&order[i - 1], &order[i], sections) == 0 ? order[i - 1] : -1;
}

neap_status sections_make(const struct packing *packing, struct region *region, struct sections *out) {
  const struct span *spans = packing->spans;
  const int32_t count = packing->count, span_total = span_count(packing);
  *out = (struct sections){.shape_count = count};
  struct point *points = region_alloc(region, (size_t)span_total * 2, sizeof *points);
  int32_t *order = region_alloc(region, (size_t)count, sizeof *order);
  out->items = region_alloc(region, (size_t)count + 1, sizeof *out->items);
  out->pieces = region_alloc(region, (size_t)span_total * 2, sizeof *out->pieces);
  RETURN_IF(!points || !order || !out->items || !out->pieces, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  size_t point_count = 0;
  for (int32_t k = 0; k < span_total; k++) {
    if (spans[k].size == 0) continue;
    points[point_count++] = (struct point){.at = spans[k].lower, .begins = true};
    points[point_count++] = (struct point){.at = spans[k].upper, .ends = true};
  }
  point_count = number_sections(points, point_count, &out->count);
  int32_t filled = 0;
  for (int32_t i = 0; i < count; i++) {
    struct item *item = &out->items[out->item_count];
    *item = (struct item){.shape = i, .first = filled};
    add_item(out, &packing->shapes[i], spans, points, point_count);
    filled = item->first + item->count;
  }
  find_twins(out, order);
  return NEAP_OK;
}

neap_status sections_load(const struct sections *sections, struct region *region, uint64_t **load) {
  *load = region_alloc(region, (size_t)sections->count + 1, sizeof **load);
  RETURN_IF(*load == NULL, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  for (int32_t i = 0; i < sections->item_count; i++)
    for (int32_t k = sections->items[i].first; k < sections->items[i].first + sections->items[i].count; k++) {
      (*load)[sections->pieces[k].lower] +=
          sections->pieces[k].size; /* differences; they wrap, their sums do not */
      (*load)[sections->pieces[k].upper] -= sections->pieces[k].size;
    }
  for (int32_t s = 1; s < sections->count; s++) (*load)[s] += (*load)[s - 1];
  return NEAP_OK;
}
