#include "session/session_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory_status.h"
#include "collective/agree.h"
#include "collective/common_memory.h"
#include "device/devices.h"
#include "kernel/ranks.h"
#include "program/spilled_variables.h"

static bool is_input(const struct step_tensor *tensor) { return tensor->role == NEAP_ROLE_INPUT; }

/* Finds the memory of the inputs: in place if the host reaches it, else zeroed memory of the host. */
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

/* Gives each spilled variable its number, in place of a place in memory. */
static neap_status number_variables(struct neap_session *s, spilled_list *list) {
  const struct lowered *l = s->main;
  for (size_t t = 0; t < l->graph->tensors.count; t++) {
    if (!l->graph->tensors.data[t].spilled) continue;
    s->resident[l->step_tensor[t]] = (uint64_t)list->count;
    TRY(vector_push(list, spilled_variable_of(l, (int32_t)t)));
  }
  return spilled_add_values(l->step, s->plan, list);
}

static neap_status make_spill_file(struct neap_session *s) {
  spilled_list list = {0};
  neap_status status = number_variables(s, &list);
  if (status == NEAP_OK && list.count > 0)
    status = spill_file_create(s->options.disk, &s->memory, list.data, (int32_t)list.count, &s->spill_file);
  vector_free(&list);
  return status;
}

/* Gives each resident tensor its place: first those that all ranks of a pipeline reach. */
static neap_status place_residents(struct neap_session *s) {
  const struct lowered *l = s->main;
  const size_t count = (size_t)l->step->tensor_count;
  uint64_t offset = 0;
  bool *common = calloc(count + 1, sizeof *common);
  RETURN_IF_NULL(common);
  for (size_t t = 0; t < l->graph->tensors.count; t++)
    if (l->graph->tensors.data[t].common && l->step_tensor[t] >= 0) common[l->step_tensor[t]] = true;
  for (int first = 1; first >= 0; first--)
    for (size_t t = 0; t < count; t++) {
      if (l->step->tensors[t].role == NEAP_ROLE_VALUE || common[t] != (first == 1)) continue;
      s->resident[t] = offset;
      offset += l->step->tensors[t].bytes; /* multiples of the alignment */
    }
  free(common);
  return NEAP_OK;
}

static neap_status map_memory(struct neap_session *s) {
  struct device_common common = {.descriptor = -1, .bytes = s->common};
  if (common.bytes > 0) {
    char what[64];
    snprintf(what, sizeof what, "`pipeline-way` %s", s->options.pipeline_way);
    TRY(collective_open_memory(s->ranks->collective, what, common.bytes, &common.descriptor));
  }
  const neap_status status =
      device_map_common(device_in_use(s->main->backend->device),
                        s->plan->resident_bytes + s->plan->arena_bytes, common, &s->memory);
  if (common.bytes > 0) close(common.descriptor);
  return status;
}

neap_status session_map_memory(struct neap_session *s) {
  const struct neap_step *step = s->main->step;
  s->resident = region_alloc(&s->region, (size_t)step->tensor_count, sizeof *s->resident);
  s->inputs = region_alloc(&s->region, (size_t)step->tensor_count, sizeof *s->inputs);
  RETURN_IF(!s->resident || !s->inputs, NEAP_OUT_OF_MEMORY, "session: out of memory");
  TRY(place_residents(s));
  memory_status_forget_peak();
  TRY(map_memory(s));
  TRY(make_spill_file(s));
  return find_inputs(s);
}

void session_unmap_memory(struct neap_session *s) {
  spill_file_free(s->spill_file);
  s->spill_file = NULL;
  device_unmap(&s->memory);
}

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

static bool is_owner(const struct neap_session *s, const struct tensor *tensor) {
  return tensor->lies_on == 0 || tensor->lies_on - 1 == s->ranks->collective->rank;
}

/* Returns true if this rank has nothing to write of a variable: of one that all reach another rank does. */
static bool writes_none(const struct neap_session *s, const struct tensor *tensor) {
  return tensor->elsewhere || (tensor->common && !is_owner(s, tensor));
}

static struct byte_share own_bytes(const struct neap_session *s, const struct lowered *l, int32_t tensor) {
  if (writes_none(s, &l->graph->tensors.data[tensor]))
    return (struct byte_share){0, 0,
                               l->backend->format_bytes(&l->graph->tensors.data[tensor], l->formats[tensor])};
  return byte_share_of_rank(l->backend, &l->graph->tensors.data[tensor], l->formats[tensor],
                            s->batch != NULL ? s->batch->collective->rank : 0);
}

/* Allocates memory on the host for all shares of a variable. */
static neap_status open_shared(const struct lowered *l, int32_t tensor, struct byte_share own,
                               unsigned char **whole) {
  *whole = calloc(own.whole + 1, 1);
  RETURN_IF(*whole == NULL, NEAP_OUT_OF_MEMORY, "'%s': out of memory for all shares of it",
            l->graph->tensors.data[tensor].name);
  return NEAP_OK;
}

/* Reads the own share into its place in `whole`, and receives the others. */
static neap_status gather_shares(const struct neap_session *s, const struct lowered *l, int32_t tensor,
                                 uint64_t place, struct byte_share own, unsigned char *whole) {
  const struct traffic of_steps = s->batch->traffic;
  const uint64_t unit = (uint64_t)dtype_rows[l->graph->tensors.data[tensor].dtype].block_bytes;
  TRY(device_read(&s->memory, place, whole + own.first, own.count));
  const neap_status status = ranks_gather(s->batch, whole, (int64_t)(own.whole / unit), unit);
  s->batch->traffic = of_steps; /* these reads belong to no step */
  return status;
}

/* Gives every rank of a pipeline a variable, from the rank that has it for all. */
static neap_status give_all(const struct neap_session *s, const struct tensor *tensor, neap_status own,
                            void *data, uint64_t bytes) {
  const struct neap_collective *c = s->ranks->collective;
  TRY(collective_share_status(c, own));
  return collective_broadcast(c, tensor->lies_on - 1, data, bytes);
}

static neap_status export_shared(const struct neap_session *s, const struct lowered *l, int32_t tensor,
                                 uint64_t place, float *plain) {
  const struct byte_share own = own_bytes(s, l, tensor);
  unsigned char *whole;
  TRY(open_shared(l, tensor, own, &whole));
  neap_status status = gather_shares(s, l, tensor, place, own, whole);
  if (status == NEAP_OK)
    status = l->backend->export_variable(l->state, &l->graph->tensors.data[tensor], l->formats[tensor], whole,
                                         plain);
  free(whole);
  return status;
}

static neap_status import_shared(struct neap_session *s, const struct lowered *l, int32_t tensor,
                                 const float *plain, uint64_t place) {
  const struct byte_share own = own_bytes(s, l, tensor);
  unsigned char *whole;
  TRY(open_shared(l, tensor, own, &whole));
  neap_status status = l->backend->import_variable(l->state, &l->graph->tensors.data[tensor],
                                                   l->formats[tensor], plain, whole);
  if (status == NEAP_OK) status = device_write(&s->memory, place, whole + own.first, own.count);
  free(whole);
  return status;
}

static bool is_shared(const struct lowered *l, int32_t tensor) {
  return l->graph->tensors.data[tensor].shares > 1;
}

/* Reads a variable of which this rank has all. */
static neap_status export_own(const struct neap_session *s, const struct lowered *l, int32_t tensor,
                              uint64_t place, float *plain) {
  unsigned char *base;
  TRY(device_enter(&s->memory, &base));
  const neap_status status = l->backend->export_variable(l->state, &l->graph->tensors.data[tensor],
                                                         l->formats[tensor], base + place, plain);
  device_leave(&s->memory);
  return status;
}

/* ---- Variables on disk ---- */

/* Returns elements of a variable that a piece of the file has, from `first` on, as a tensor of their own. */
static struct tensor piece_at(const struct tensor *tensor, int64_t first) {
  struct tensor piece = *tensor;
  piece.rank = 1;
  piece.dims[0] = piece.elements =
      tensor->elements - first < SPILL_PIECE ? tensor->elements - first : SPILL_PIECE;
  return piece;
}

int64_t session_piece(const struct neap_session *s, int32_t id) { return spilled_piece(s->main, id); }

neap_status session_copy_piece_bytes(const struct neap_session *s, int32_t id, bool out, int64_t first,
                                     void *bytes) {
  const int64_t number = (int64_t)session_place(s, id), k = first / SPILL_PIECE;
  return out ? spill_file_read_piece(s->spill_file, number, k, bytes)
             : spill_file_write_piece(s->spill_file, number, k, bytes);
}

neap_status session_copy_piece(const struct neap_session *s, int32_t id, bool out, int64_t first,
                               float *plain) {
  const struct lowered *l = s->main;
  const struct tensor piece = piece_at(&l->graph->tensors.data[id], first);
  void *buffer = malloc(dtype_bytes(piece.dtype, (uint64_t)piece.elements));
  RETURN_IF_NULL(buffer);
  neap_status status = out ? session_copy_piece_bytes(s, id, true, first, buffer) : NEAP_OK;
  if (status == NEAP_OK)
    status = out ? l->backend->export_variable(l->state, &piece, ROW_MAJOR, buffer, plain)
                 : l->backend->import_variable(l->state, &piece, ROW_MAJOR, plain, buffer);
  if (status == NEAP_OK && !out) status = session_copy_piece_bytes(s, id, false, first, buffer);
  free(buffer);
  return status;
}

static neap_status copy_whole(const struct neap_session *s, int32_t id, bool out, float *plain) {
  const struct lowered *l = s->main;
  const struct tensor *tensor = &l->graph->tensors.data[id];
  const int64_t number = (int64_t)session_place(s, id);
  void *buffer = malloc(l->backend->format_bytes(tensor, l->formats[id]));
  RETURN_IF_NULL(buffer);
  neap_status status = out ? spill_file_read(s->spill_file, number, buffer) : NEAP_OK;
  if (status == NEAP_OK)
    status = out ? l->backend->export_variable(l->state, tensor, l->formats[id], buffer, plain)
                 : l->backend->import_variable(l->state, tensor, l->formats[id], plain, buffer);
  if (status == NEAP_OK && !out) status = spill_file_write(s->spill_file, number, buffer);
  free(buffer);
  return status;
}

/* Copies a variable on disk to f32 in row-major order, or back. */
static neap_status copy_spilled(const struct neap_session *s, int32_t id, bool out, float *plain) {
  const int64_t piece = session_piece(s, id), elements = s->main->graph->tensors.data[id].elements;
  if (piece == 0) return copy_whole(s, id, out, plain);
  for (int64_t first = 0; first < elements; first += piece)
    TRY(session_copy_piece(s, id, out, first, plain + first));
  return NEAP_OK;
}

neap_status session_export(const struct neap_session *s, const struct lowered *l, int32_t tensor,
                           uint64_t place, float *plain) {
  const struct tensor *given = &l->graph->tensors.data[tensor];
  neap_status status = NEAP_OK;
  if (given->spilled) return copy_spilled(s, tensor, true, plain);
  if (is_owner(s, given))
    status = (is_shared(l, tensor) ? export_shared : export_own)(s, l, tensor, place, plain);
  return given->lies_on > 0 ? give_all(s, given, status, plain, (uint64_t)given->elements * sizeof *plain)
                            : status;
}

neap_status session_import(struct neap_session *s, const struct lowered *l, int32_t tensor,
                           const float *plain, uint64_t place) {
  unsigned char *base;
  if (writes_none(s, &l->graph->tensors.data[tensor])) return NEAP_OK;
  if (l->graph->tensors.data[tensor].spilled)
    return copy_spilled(s, tensor, false, (float *)(uintptr_t)plain);
  if (is_shared(l, tensor)) return import_shared(s, l, tensor, plain, place);
  TRY(device_enter(&s->memory, &base));
  const neap_status status = l->backend->import_variable(l->state, &l->graph->tensors.data[tensor],
                                                         l->formats[tensor], plain, base + place);
  device_leave(&s->memory);
  return status;
}

/* ---- Variables in their memory format ---- */

neap_status session_read_bytes(const struct neap_session *s, int32_t tensor, void *bytes) {
  const struct byte_share own = own_bytes(s, s->main, tensor);
  const uint64_t place = session_place(s, tensor);
  const struct tensor *given = &s->main->graph->tensors.data[tensor];
  neap_status status = NEAP_OK;
  if (given->spilled) return spill_file_read(s->spill_file, (int64_t)place, bytes);
  if (is_owner(s, given))
    status = is_shared(s->main, tensor) ? gather_shares(s, s->main, tensor, place, own, bytes)
                                        : device_read(&s->memory, place, bytes, own.whole);
  return given->lies_on > 0 ? give_all(s, given, status, bytes, own.whole) : status;
}

/* Writes some bytes of a variable on disk, of which pieces are read before. */
static neap_status write_spilled(struct neap_session *s, int32_t tensor, uint64_t first, uint64_t count,
                                 const void *bytes) {
  const uint64_t piece = dtype_bytes(s->main->graph->tensors.data[tensor].dtype, SPILL_PIECE);
  const int64_t number = (int64_t)session_place(s, tensor);
  unsigned char *buffer = malloc(piece);
  neap_status status = NEAP_OK;
  RETURN_IF_NULL(buffer);
  for (uint64_t at = first; status == NEAP_OK && at < first + count;) {
    const uint64_t k = at / piece, begin = at - k * piece, left = first + count - at,
                   some = left < piece - begin ? left : piece - begin;
    status = spill_file_read_piece(s->spill_file, number, (int64_t)k, buffer);
    if (status != NEAP_OK) break;
    memcpy(buffer + begin, (const unsigned char *)bytes + (at - first), some);
    status = spill_file_write_piece(s->spill_file, number, (int64_t)k, buffer);
    at += some;
  }
  free(buffer);
  return status;
}

neap_status session_write_bytes(struct neap_session *s, int32_t tensor, uint64_t first, uint64_t count,
                                const void *bytes) {
  const struct byte_share own = own_bytes(s, s->main, tensor);
  const uint64_t begin = first > own.first ? first : own.first, theirs = own.first + own.count,
                 end = first + count < theirs ? first + count : theirs;
  if (begin >= end) return NEAP_OK;
  if (s->main->graph->tensors.data[tensor].spilled) return write_spilled(s, tensor, first, count, bytes);
  return device_write(&s->memory, session_place(s, tensor) + (begin - own.first),
                      (const unsigned char *)bytes + (begin - first), end - begin);
}

struct byte_share session_own_bytes(const struct neap_session *s, int32_t tensor) {
  return own_bytes(s, s->main, tensor);
}
