#include "graph/attributes.h"

#include <inttypes.h>
#include <string.h>

static int64_t integer_at(const unsigned char *place, enum attribute_type type) {
  int64_t wide;
  int32_t narrow;
  bool flag;
  switch (type) {
  case ATTRIBUTE_INTEGER:
    memcpy(&wide, place, sizeof wide);
    return wide;
  case ATTRIBUTE_INT32:
    memcpy(&narrow, place, sizeof narrow);
    return narrow;
  case ATTRIBUTE_FLAG:
    memcpy(&flag, place, sizeof flag);
    return flag;
  case ATTRIBUTE_REAL:
    break;
  }
  return 0;
}

void attributes_print(FILE *file, const union attributes *attributes, const struct attribute_row *rows,
                      int32_t count, bool cost) {
  for (int32_t i = 0; i < count; i++) {
    const struct attribute_row *row = &rows[i];
    const unsigned char *place = (const unsigned char *)attributes + row->offset;
    if (cost && row->no_cost) continue;
    if (row->type == ATTRIBUTE_REAL) {
      float value;
      memcpy(&value, place, sizeof value);
      if (value != 0) fprintf(file, " %s %.9g", row->name, (double)value);
    } else {
      const int64_t value = integer_at(place, row->type);
      if (value != 0) fprintf(file, " %s %" PRId64, row->name, value);
    }
  }
}
