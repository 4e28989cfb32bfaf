#include "data/transform.h"

#include <string.h>

#include "base/dtype.h"

neap_status stage_add_slot(struct stage *stage, struct field field, int *slot) {
  RETURN_IF(stage->slot_count == SLOT_LIMIT, NEAP_UNSUPPORTED, "data '%s': more than %d values of a record",
            stage->source->name, SLOT_LIMIT);
  *slot = stage->slot_count++;
  stage->slots[*slot] = (struct slot){.field = field};
  return NEAP_OK;
}

int stage_find_slot(const struct stage *stage, const char *name) {
  for (int i = stage->slot_count - 1; i >= 0; i--)
    if (strcmp(stage->slots[i].field.name, name) == 0) return i;
  return -1;
}

const struct field *find_wanted(const struct field *wanted, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(wanted[i].name, name) == 0) return &wanted[i];
  return NULL;
}

size_t slot_bytes(const struct slot *slot, int64_t length) {
  const struct field *f = &slot->field;
  int64_t elements = field_elements(f);
  if (f->ragged && f->dims[0] > 0) elements = elements / f->dims[0] * length;
  return (size_t)dtype_bytes(f->dtype, elements);
}
