#include "layout/sweep.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

/* The beginning or end of a shape or span. */
struct event {
  int64_t at;
  int32_t index;
  bool begins;
};

/* Compares events; spans are half-open, so an end comes before a beginning. */
static int compare_events(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  if (x->begins != y->begins) return x->begins ? 1 : -1;
  return (x->index > y->index) - (x->index < y->index);
}

/* ---- Live bytes ---- */

static neap_status add_up(const struct span *spans, const struct event *events, size_t event_count,
                          uint64_t *most) {
  uint64_t live = 0;
  bool overflow = false;
  *most = 0;
  for (size_t e = 0; e < event_count && !overflow; e++) {
    const uint64_t size = spans[events[e].index].size;
    if (events[e].begins)
      overflow = __builtin_add_overflow(live, size, &live);
    else
      live -= size;
    if (live > *most) *most = live;
  }
  RETURN_IF(overflow || *most == UINT64_MAX, NEAP_TOO_LARGE,
            "layout: the sizes of buffers that live at once overflow 64 bits");
  return NEAP_OK;
}

neap_status sweep_live(const struct packing *packing, uint64_t *live) {
  const int32_t count = span_count(packing);
  struct event *events = calloc((size_t)count * 2 + 1, sizeof *events);
  RETURN_IF_NULL(events);
  for (int32_t i = 0; i < count; i++) {
    events[2 * (size_t)i] = (struct event){packing->spans[i].lower, i, true};
    events[2 * (size_t)i + 1] = (struct event){packing->spans[i].upper, i, false};
  }
  qsort(events, 2 * (size_t)count, sizeof *events, compare_events);
  const neap_status status = add_up(packing->spans, events, 2 * (size_t)count, live);
  free(events);
  return status;
}

/* ---- Offsets ---- */

struct hole {
  uint64_t begin, end;
};

/* The free ranges, by rising offset; the last one has no end (UINT64_MAX). Neighbours do not touch. */
struct holes {
  VECTOR(struct hole) list;
};

/* Takes the lowest free place; 0 bytes get offset 0. Returns false if there is no room below 2^64. */
static bool take(struct holes *holes, uint64_t size, uint64_t *offset) {
  struct hole *list = holes->list.data;
  size_t i = 0;
  *offset = 0;
  if (size == 0) return true;
  while (list[i].end - list[i].begin < size && i + 1 < holes->list.count) i++;
  if (list[i].end - list[i].begin < size) return false;
  *offset = list[i].begin;
  list[i].begin += size;
  if (list[i].begin == list[i].end) memmove(&list[i], &list[i + 1], (--holes->list.count - i) * sizeof *list);
  return true;
}

static neap_status give_back(struct holes *holes, uint64_t offset, uint64_t size) {
  if (size == 0) return NEAP_OK;
  size_t low = 0, high = holes->list.count - 1; /* the last hole lies above all that was taken */
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (holes->list.data[middle].begin < offset)
      low = middle + 1;
    else
      high = middle;
  }
  struct hole *list = holes->list.data;
  const bool after = low > 0 && list[low - 1].end == offset, before = list[low].begin == offset + size;
  if (after && before) {
    list[low - 1].end = list[low].end;
    memmove(&list[low], &list[low + 1], (--holes->list.count - low) * sizeof *list);
  } else if (after) {
    list[low - 1].end += size;
  } else if (before) {
    list[low].begin = offset;
  } else {
    TRY(vector_push(&holes->list, (struct hole){0}));
    list = holes->list.data;
    memmove(&list[low + 1], &list[low], (holes->list.count - 1 - low) * sizeof *list);
    list[low] = (struct hole){offset, offset + size};
  }
  return NEAP_OK;
}

static neap_status sweep(const struct packing *packing, const struct event *events, size_t event_count,
                         struct holes *holes, uint64_t *offsets, uint64_t *height) {
  TRY(vector_push(&holes->list, (struct hole){0, UINT64_MAX}));
  *height = 0;
  for (size_t e = 0; e < event_count; e++) {
    const int32_t i = events[e].index;
    const uint64_t size = shape_size(&packing->shapes[i], packing->spans);
    if (!events[e].begins) {
      TRY(give_back(holes, offsets[i], size));
      continue;
    }
    if (!take(holes, size, &offsets[i])) {
      *height = UINT64_MAX;
      return NEAP_OK;
    }
    if (offsets[i] + size > *height) *height = offsets[i] + size;
  }
  return NEAP_OK;
}

neap_status sweep_place(const struct packing *packing, uint64_t *offsets, uint64_t *height) {
  const size_t event_count = 2 * (size_t)packing->count;
  struct event *events = calloc(event_count + 1, sizeof *events);
  RETURN_IF_NULL(events);
  for (int32_t i = 0; i < packing->count; i++) {
    const struct shape *shape = &packing->shapes[i];
    const struct span *first = &packing->spans[shape->first], *last = first + shape->count - 1;
    events[2 * (size_t)i] = (struct event){first->lower, i, true};
    events[2 * (size_t)i + 1] = (struct event){last->upper, i, false};
  }
  qsort(events, event_count, sizeof *events, compare_events);
  struct holes holes = {0};
  const neap_status status = sweep(packing, events, event_count, &holes, offsets, height);
  vector_free(&holes.list);
  free(events);
  return status;
}
