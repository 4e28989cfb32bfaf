#include "session/drop_step.h"

#include "session/session_memory.h"

static size_t statistic_bytes(const struct neap_session *s, size_t tensor) {
  return is_running_statistic(&s->main->graph->tensors.data[tensor])
             ? (size_t)tensor_bytes(s->main, (int32_t)tensor)
             : 0;
}

/* Copies all running statistics to their backup, or back. */
static neap_status copy_statistics(struct neap_session *s, bool back) {
  unsigned char *kept = s->statistics;
  for (size_t i = 0; i < s->main->graph->tensors.count; i++) {
    const size_t bytes = statistic_bytes(s, i);
    if (bytes == 0) continue;
    const uint64_t place = session_place(s, (int32_t)i);
    TRY(back ? device_write(&s->memory, place, kept, bytes) : device_read(&s->memory, place, kept, bytes));
    kept += bytes;
  }
  return NEAP_OK;
}

neap_status drop_step_prepare(struct neap_session *s) {
  size_t bytes = 0;
  for (size_t i = 0; i < s->main->graph->tensors.count; i++) bytes += statistic_bytes(s, i);
  if (bytes == 0) return NEAP_OK;
  s->statistics = region_alloc(&s->region, bytes, 1);
  RETURN_IF_NULL(s->statistics);
  return NEAP_OK;
}

neap_status drop_step_begin(struct neap_session *s) {
  s->changed = CHANGED_NOTHING;
  return copy_statistics(s, false);
}

void drop_step(struct neap_session *s) {
  const bool lost = s->changed == CHANGED_STATISTICS && copy_statistics(s, true) != NEAP_OK;
  s->torn = s->torn || lost || s->changed == CHANGED_VARIABLES;
  s->changed = CHANGED_NOTHING;
  s->overflowed = false;
  s->micro_batch = 0;
}
