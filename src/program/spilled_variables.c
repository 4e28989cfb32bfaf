#include "program/spilled_variables.h"

#include "kernel/restorers.h"

enum { VALUE_PIECE = 1 << 20 /* bytes of a value with one checksum: whole pages */ };

struct spilled_variable spilled_variable_of(const struct lowered *l, int32_t id) {
  const struct tensor *tensor = &l->graph->tensors.data[id];
  return (struct spilled_variable){.name = tensor->name,
                                   .bytes = l->backend->format_bytes(tensor, l->formats[id]),
                                   .piece = dtype_bytes(tensor->dtype, SPILL_PIECE)};
}

int64_t spilled_piece(const struct lowered *l, int32_t id) {
  const struct tensor *tensor = &l->graph->tensors.data[id];
  if (!tensor->spilled || !l->backend->same_place(tensor, l->formats[id], ROW_MAJOR)) return 0;
  return tensor->elements < SPILL_PIECE ? tensor->elements : SPILL_PIECE;
}

int64_t spilled_count(const struct lowered *l) {
  int64_t count = 0;
  for (size_t t = 0; t < l->graph->tensors.count; t++) count += l->graph->tensors.data[t].spilled;
  return count;
}

neap_status spilled_add_values(const struct neap_step *step, const struct neap_plan *plan,
                               spilled_list *list) {
  for (int32_t v = step->required_count; v < step->node_count; v++) {
    if (step_restores(step, v) || !plan_stores(plan, v)) continue;
    for (int32_t i = 0; i < step->nodes[v].input_count; i++) {
      const struct step_tensor *value = &step->tensors[step->nodes[v].inputs[i]];
      TRY(vector_push(list, ((struct spilled_variable){.name = value->name,
                                                       .bytes = value->bytes,
                                                       .piece = value->bytes < VALUE_PIECE ? value->bytes
                                                                                           : VALUE_PIECE})));
    }
  }
  return NEAP_OK;
}

neap_status spilled_file_bytes(const struct lowered *l, const struct neap_plan *plan, uint64_t *bytes) {
  spilled_list list = {0};
  neap_status status = spilled_add_values(l->step, plan, &list);
  for (int32_t t = 0; status == NEAP_OK && t < (int32_t)l->graph->tensors.count; t++)
    if (l->graph->tensors.data[t].spilled) status = vector_push(&list, spilled_variable_of(l, t));
  *bytes = spill_file_bytes(list.data, (int32_t)list.count);
  vector_free(&list);
  return status;
}

uint64_t spilled_whole_bytes(const struct lowered *l) {
  uint64_t most = 0;
  for (int32_t t = 0; t < (int32_t)l->graph->tensors.count; t++) {
    if (!l->graph->tensors.data[t].spilled || spilled_piece(l, t) > 0) continue;
    const uint64_t bytes = spilled_variable_of(l, t).bytes;
    most = bytes > most ? bytes : most;
  }
  return most;
}
