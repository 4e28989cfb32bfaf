#include "run/session_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory_status.h"
#include "device/devices.h"
#include "kernel/ranks.h"

static bool is_input(const struct step_tensor *tensor) { return tensor->role == NEAP_ROLE_INPUT; }

/* In place where the host reaches the memory, else in memory of the host, of zeros as the other one is. */
static neap_status find_inputs(struct neap_session *s) {
  const struct neap_step *step = s->main->step;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const struct step_tensor *tensor = &step->tensors[t];
    if (!is_input(tensor)) continue;
    s->inputs[t] = device_address(&s->memory, s->resident[t], tensor->bytes);
    if (s->inputs[t] == NULL) s->inputs[t] = region_alloc(&s->region, tensor->bytes + 1, 1);
    RETURN_IF_NULL(s->inputs[t]);
  }
  return NEAP_OK;
}

neap_status session_map_memory(struct neap_session *s) {
  const struct neap_step *step = s->main->step;
  s->resident = region_alloc(&s->region, (size_t)step->tensor_count, sizeof *s->resident);
  s->inputs = region_alloc(&s->region, (size_t)step->tensor_count, sizeof *s->inputs);
  RETURN_IF(!s->resident || !s->inputs, NEAP_OUT_OF_MEMORY, "session: out of memory");
  uint64_t offset = 0;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    if (step->tensors[t].role == NEAP_ROLE_VALUE) continue;
    s->resident[t] = offset;
    offset += step->tensors[t].bytes; /* multiples of the alignment */
  }
  memory_status_forget_peak();
  TRY(device_map(device_in_use(s->main->backend->device), s->plan->resident_bytes + s->plan->arena_bytes,
                 &s->memory));
  return find_inputs(s);
}

void session_unmap_memory(struct neap_session *s) { device_unmap(&s->memory); }

void *neap_session_input(neap_session *s, const char *name) {
  if (s == NULL || name == NULL) return NULL;
  const struct neap_step *step = s->main->step;
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (is_input(&step->tensors[t]) && strcmp(step->tensors[t].name, name) == 0) return s->inputs[t];
  return NULL;
}

neap_status session_send_inputs(struct neap_session *s) {
  const struct neap_step *step = s->main->step;
  for (int32_t t = 0; t < step->tensor_count && !s->memory.device->host_visible; t++)
    if (is_input(&step->tensors[t]))
      TRY(device_write(&s->memory, s->resident[t], s->inputs[t], step->tensors[t].bytes));
  return NEAP_OK;
}

uint64_t session_place(const struct neap_session *s, int32_t tensor) {
  return s->resident[s->main->step_tensor[tensor]];
}

/* ---- Variables as f32 ---- */

/* A variable that processes share, whole, on the host. */
struct shared {
  unsigned char *whole, *own; /* its elements; those of this process's share among them */
  struct share share;
  uint64_t size; /* bytes of an element */
};

static neap_status open_shared(const struct neap_session *s, const struct lowered *l, int32_t tensor,
                               struct shared *shared) {
  const struct tensor *t = &l->graph->tensors.data[tensor];
  const struct neap_collective *c = s->ranks->collective;
  const uint64_t bytes = l->backend->format_bytes(t, l->formats[tensor]), size = dtype_bytes(t->dtype, 1);
  const struct share share = share_of_rank((int64_t)(bytes / size), c->rank, c->size);
  unsigned char *whole = calloc(bytes + 1, 1);
  RETURN_IF(whole == NULL, NEAP_OUT_OF_MEMORY, "'%s': out of memory for all shares of it", t->name);
  *shared = (struct shared){whole, whole + (uint64_t)share.first * size, share, size};
  return NEAP_OK;
}

static neap_status export_shared(const struct neap_session *s, const struct lowered *l, int32_t tensor,
                                 uint64_t place, float *plain) {
  const struct tensor *t = &l->graph->tensors.data[tensor];
  const struct traffic of_steps = s->ranks->traffic;
  struct shared x;
  TRY(open_shared(s, l, tensor, &x));
  neap_status status = device_read(&s->memory, place, x.own, (uint64_t)x.share.count * x.size);
  if (status == NEAP_OK) status = ranks_gather(s->ranks, x.whole, x.share.whole, x.size);
  s->ranks->traffic = of_steps; /* what is read belongs to no step */
  if (status == NEAP_OK)
    status = l->backend->export_variable(l->state, t, l->formats[tensor], x.whole, plain);
  free(x.whole);
  return status;
}

static neap_status import_shared(struct neap_session *s, const struct lowered *l, int32_t tensor,
                                 const float *plain, uint64_t place) {
  const struct tensor *t = &l->graph->tensors.data[tensor];
  struct shared x;
  TRY(open_shared(s, l, tensor, &x));
  neap_status status = l->backend->import_variable(l->state, t, l->formats[tensor], plain, x.whole);
  if (status == NEAP_OK) status = device_write(&s->memory, place, x.own, (uint64_t)x.share.count * x.size);
  free(x.whole);
  return status;
}

static bool is_shared(const struct lowered *l, int32_t tensor) {
  return l->graph->tensors.data[tensor].shares > 1;
}

neap_status session_export(const struct neap_session *s, const struct lowered *l, int32_t tensor,
                           uint64_t place, float *plain) {
  unsigned char *base;
  if (is_shared(l, tensor)) return export_shared(s, l, tensor, place, plain);
  TRY(device_enter(&s->memory, &base));
  const neap_status status = l->backend->export_variable(l->state, &l->graph->tensors.data[tensor],
                                                         l->formats[tensor], base + place, plain);
  device_leave(&s->memory);
  return status;
}

neap_status session_import(struct neap_session *s, const struct lowered *l, int32_t tensor,
                           const float *plain, uint64_t place) {
  unsigned char *base;
  if (is_shared(l, tensor)) return import_shared(s, l, tensor, plain, place);
  TRY(device_enter(&s->memory, &base));
  const neap_status status = l->backend->import_variable(l->state, &l->graph->tensors.data[tensor],
                                                         l->formats[tensor], plain, base + place);
  device_leave(&s->memory);
  return status;
}
