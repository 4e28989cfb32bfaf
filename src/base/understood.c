#include "base/understood.h"

/* Copies a row's texts. */
static neap_status take_texts(struct region *region, neap_understood *row) {
  row->object = region_string(region, row->object);
  row->became = region_string(region, row->became);
  if (row->why != NULL) RETURN_IF_NULL(row->why = region_string(region, row->why));
  RETURN_IF(row->object == NULL || row->became == NULL, NEAP_OUT_OF_MEMORY,
            "out of memory for what was read");
  return NEAP_OK;
}

neap_status understood_add(struct understood *understood, struct region *region, neap_understood row) {
  TRY(take_texts(region, &row));
  return vector_push(&understood->rows, row);
}

void understood_free(struct understood *understood) { vector_free(&understood->rows); }

neap_status understood_copy(const struct understood *understood, struct region *region,
                            const neap_understood **rows, int64_t *count) {
  const size_t number = understood->rows.count;
  neap_understood *copies = region_copy(region, understood->rows.data, number, sizeof *copies);
  RETURN_IF_NULL(copies);
  for (size_t i = 0; i < number; i++) TRY(take_texts(region, &copies[i]));
  *rows = copies;
  *count = (int64_t)number;
  return NEAP_OK;
}
