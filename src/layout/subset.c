#include "layout/subset.h"

#include <string.h>

neap_status subset_create(const struct shape *shapes, int32_t count, struct region *region,
                          struct subset *out) {
  const size_t spans = count > 0 ? (size_t)(shapes[count - 1].first + shapes[count - 1].count) : 0;
  *out = (struct subset){0};
  out->shapes = region_alloc(region, (size_t)count, sizeof *out->shapes);
  out->spans = region_alloc(region, spans, sizeof *out->spans);
  out->shape_of = region_alloc(region, (size_t)count, sizeof *out->shape_of);
  RETURN_IF(!out->shapes || !out->spans || !out->shape_of, NEAP_OUT_OF_MEMORY, "layout: out of memory");
  return NEAP_OK;
}

void subset_choose(struct subset *subset, const struct shape *shapes, int32_t count, const struct span *spans,
                   const bool *chosen) {
  int32_t filled = 0;
  subset->count = 0;
  for (int32_t i = 0; i < count; i++) {
    if (!chosen[i]) continue;
    subset->shape_of[subset->count] = i;
    subset->shapes[subset->count++] = (struct shape){.first = filled, .count = shapes[i].count};
    memcpy(subset->spans + filled, spans + shapes[i].first, (size_t)shapes[i].count * sizeof *spans);
    filled += shapes[i].count;
  }
}
