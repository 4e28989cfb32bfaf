#include "layout/layout.h"

#include <stdlib.h>

#include "base/region.h"
#include "layout/solver.h"

/* Work of the search (search.h), a second or a few; and what a planner that asks again and again can wait
 * for.
 */
static const int64_t BUFFER_WORK = 4000000000, INSTANCE_WORK = 60000000;

static uint64_t aligned(uint64_t bytes) {
  return (bytes + LAYOUT_ALIGNMENT - 1) / LAYOUT_ALIGNMENT * LAYOUT_ALIGNMENT;
}

/* An instance and those that take its bytes over, one after the other, are one shape with a span each. */
static void make_shapes(const struct instance *instances, int32_t count, int32_t *next, int32_t *shape_of,
                        struct shape *shapes, struct span *spans, int32_t *shape_count) {
  int32_t filled = 0;
  for (int32_t i = 0; i < count; i++) next[i] = -1;
  for (int32_t i = 0; i < count; i++)
    if (instances[i].takes_over >= 0) next[instances[i].takes_over] = i;
  *shape_count = 0;
  for (int32_t i = 0; i < count; i++) {
    if (instances[i].takes_over >= 0) continue;
    struct shape *shape = &shapes[*shape_count];
    *shape = (struct shape){.first = filled};
    int64_t from = instances[i].at;
    for (int32_t k = i; k >= 0; k = next[k]) {
      /* Where an output takes over, the input's bytes count until then, the output's from the next position
       * on. */
      const int64_t until = (int64_t)instances[k].last + 1;
      spans[filled++] = (struct span){from, until > from ? until : from + 1, aligned(instances[k].bytes)};
      from = until > from ? until : from + 1;
      shape_of[k] = *shape_count;
      shape->count++;
    }
    ++*shape_count;
  }
}

static neap_status solve(const struct instance *instances, int32_t count, uint64_t enough,
                         struct region *region, struct layout *out) {
  const size_t n = (size_t)count;
  struct shape *shapes = region_alloc(region, n, sizeof *shapes);
  struct span *spans = region_alloc(region, n, sizeof *spans);
  int32_t *next = region_alloc(region, n, sizeof *next),
          *shape_of = region_alloc(region, n, sizeof *shape_of), shape_count;
  RETURN_IF(!shapes || !spans || !next || !shape_of, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  make_shapes(instances, count, next, shape_of, shapes, spans, &shape_count);
  struct placement_result result;
  TRY(place_shapes(shapes, shape_count, spans, enough, INSTANCE_WORK, &result));
  out->offsets = malloc((n + 1) * sizeof *out->offsets);
  RETURN_IF_NULL(out->offsets);
  for (int32_t i = 0; i < count; i++) out->offsets[i] = shapes[shape_of[i]].offset;
  out->arena_bytes = result.height;
  out->live_bytes = result.lower_bound;
  return NEAP_OK;
}

neap_status layout_instances(const struct instance *instances, int32_t count, uint64_t enough,
                             struct layout *out) {
  struct region region = {0};
  *out = (struct layout){0};
  const neap_status status = solve(instances, count, enough, &region, out);
  region_free(&region);
  return status;
}

neap_status neap_layout_solve(neap_buffer *buffers, int64_t count, uint64_t capacity,
                              neap_layout_result *result) {
  RETURN_IF(count < 0 || count > INT32_MAX / 4, NEAP_INVALID_ARGUMENT, "layout: %lld buffers are too many",
            (long long)count);
  struct region region = {0};
  struct shape *shapes = region_alloc(&region, (size_t)count, sizeof *shapes);
  struct span *spans = region_alloc(&region, (size_t)count, sizeof *spans);
  neap_status status = NEAP_OK;
  if (!shapes || !spans) status = neap_fail(NEAP_OUT_OF_MEMORY, "layout: out of memory");
  for (int64_t i = 0; status == NEAP_OK && i < count; i++) {
    if (buffers[i].upper <= buffers[i].lower)
      status = neap_fail(NEAP_INVALID_ARGUMENT, "layout: buffer %lld lives from %lld up to %lld",
                         (long long)i, (long long)buffers[i].lower, (long long)buffers[i].upper);
    shapes[i] = (struct shape){.first = (int32_t)i, .count = 1};
    spans[i] = (struct span){buffers[i].lower, buffers[i].upper, buffers[i].size};
  }
  struct placement_result found;
  if (status == NEAP_OK) status = place_shapes(shapes, (int32_t)count, spans, capacity, BUFFER_WORK, &found);
  for (int64_t i = 0; status == NEAP_OK && i < count; i++) buffers[i].offset = shapes[i].offset;
  region_free(&region);
  if (status != NEAP_OK) return status;
  *result = (neap_layout_result){found.height, found.lower_bound, found.height == found.least};
  RETURN_IF(capacity > 0 && found.height > capacity, NEAP_OVER_BUDGET,
            "layout: %s within a capacity of %llu; the least height found is %llu",
            capacity < found.least ? "there is no layout" : "no layout was found",
            (unsigned long long)capacity, (unsigned long long)found.height);
  return NEAP_OK;
}
