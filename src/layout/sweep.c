#include "layout/sweep.h"

#include <stdbool.h>
#include <string.h>

#include "base/region.h"
#include "base/vector.h"

struct event {
  int64_t at;
  int32_t shape;
  bool begins;
};

/* Half-open: what ends makes room first. */
static int compare_events(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  if (x->begins != y->begins) return x->begins ? 1 : -1;
  return (x->shape > y->shape) - (x->shape < y->shape);
}

struct hole {
  uint64_t begin, end;
};

/* What is free, by rising offset; the last hole has no end (UINT64_MAX). Neighbours do not touch. */
struct holes {
  VECTOR(struct hole) list;
};

/* 0 bytes lie at 0. False: there is no room below 2^64. */
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

static neap_status sweep(const struct shape *shapes, const struct span *spans, const struct event *events,
                         size_t event_count, struct holes *holes, uint64_t *offsets, uint64_t *height) {
  TRY(vector_push(&holes->list, (struct hole){0, UINT64_MAX}));
  *height = 0;
  for (size_t e = 0; e < event_count; e++) {
    const int32_t i = events[e].shape;
    const uint64_t size = shape_size(&shapes[i], spans);
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

neap_status sweep_place(const struct shape *shapes, int32_t count, const struct span *spans,
                        uint64_t *offsets, uint64_t *height) {
  const size_t event_count = 2 * (size_t)count;
  struct event *events = malloc((event_count + 1) * sizeof *events);
  RETURN_IF_NULL(events);
  for (int32_t i = 0; i < count; i++) {
    const struct shape *shape = &shapes[i];
    events[2 * (size_t)i] = (struct event){spans[shape->first].lower, i, true};
    events[2 * (size_t)i + 1] = (struct event){spans[shape->first + shape->count - 1].upper, i, false};
  }
  qsort(events, event_count, sizeof *events, compare_events);
  struct holes holes = {0};
  const neap_status status = sweep(shapes, spans, events, event_count, &holes, offsets, height);
  vector_free(&holes.list);
  free(events);
  return status;
}
