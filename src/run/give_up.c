#include "run/give_up.h"

#include <string.h>

/* Copies all running statistics to where they are kept, or back; returns their bytes. NULL: only counts. */
static size_t copy_statistics(struct neap_session *s, unsigned char *kept, bool back) {
  const struct neap_graph *graph = s->main->graph;
  size_t bytes = 0;
  for (size_t i = 0; i < graph->tensors.count; i++) {
    if (!is_running_statistic(&graph->tensors.data[i])) continue;
    const int32_t t = s->main->step_tensor[i];
    const size_t size = (size_t)s->main->step->tensors[t].bytes;
    unsigned char *statistic = s->memory + s->resident[t];
    if (kept != NULL) memcpy(back ? statistic : kept + bytes, back ? kept + bytes : statistic, size);
    bytes += size;
  }
  return bytes;
}

neap_status give_up_prepare(struct neap_session *s) {
  const size_t bytes = copy_statistics(s, NULL, false);
  if (bytes == 0) return NEAP_OK;
  s->statistics = region_alloc(&s->region, bytes, 1);
  RETURN_IF_NULL(s->statistics);
  return NEAP_OK;
}

void give_up_begin(struct neap_session *s) {
  s->changed = CHANGED_NOTHING;
  copy_statistics(s, s->statistics, false);
}

void give_up(struct neap_session *s) {
  if (s->changed == CHANGED_STATISTICS) copy_statistics(s, s->statistics, true);
  s->torn = s->torn || s->changed == CHANGED_VARIABLES;
  s->changed = CHANGED_NOTHING;
  s->overflowed = false;
  s->micro_batch = 0;
}
