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

static void put(unsigned char *place, enum attribute_type type, double value) {
  const int64_t wide = (int64_t)value;
  const int32_t narrow = (int32_t)value;
  const float real = (float)value;
  const bool flag = value != 0;
  switch (type) {
  case ATTRIBUTE_INTEGER:
    memcpy(place, &wide, sizeof wide);
    break;
  case ATTRIBUTE_INT32:
    memcpy(place, &narrow, sizeof narrow);
    break;
  case ATTRIBUTE_REAL:
    memcpy(place, &real, sizeof real);
    break;
  case ATTRIBUTE_FLAG:
    memcpy(place, &flag, sizeof flag);
    break;
  }
}

void attributes_complete(union attributes *attributes, const struct attribute_row *rows, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    unsigned char *place = (unsigned char *)attributes + rows[i].offset;
    float real = 0;
    if (rows[i].type == ATTRIBUTE_REAL) memcpy(&real, place, sizeof real);
    if (rows[i].usual != 0 && real == 0 && integer_at(place, rows[i].type) == 0)
      put(place, rows[i].type, rows[i].usual);
  }
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
