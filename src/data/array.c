#include "data/array.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/half.h"
#include "data/scale.h"

enum { BUFFER_BYTES = 8192 };
enum type { BOOL, U8, I8, U16, I16, U32, I32, U64, I64, F16, F32, F64, TYPES };

static const struct type_row {
  const char *name;
  size_t bytes;
  enum array_kind kind;
} types[TYPES] = {
    [BOOL] = {"|b1", 1, ARRAY_INTEGERS}, [U8] = {"|u1", 1, ARRAY_BYTES},
    [I8] = {"|i1", 1, ARRAY_INTEGERS},   [U16] = {"<u2", 2, ARRAY_INTEGERS},
    [I16] = {"<i2", 2, ARRAY_INTEGERS},  [U32] = {"<u4", 4, ARRAY_INTEGERS},
    [I32] = {"<i4", 4, ARRAY_INTEGERS},  [U64] = {"<u8", 8, ARRAY_INTEGERS},
    [I64] = {"<i8", 8, ARRAY_INTEGERS},  [F16] = {"<f2", 2, ARRAY_REALS},
    [F32] = {"<f4", 4, ARRAY_REALS},     [F64] = {"<f8", 8, ARRAY_REALS},
};

neap_status array_open(const char *name, int descriptor, uint64_t base, uint64_t bytes, struct array *array) {
  struct npy npy;
  int type = 0;
  TRY(npy_read(name, descriptor, base, &npy));
  while (type < TYPES && strcmp(types[type].name, npy.type) != 0) type++;
  RETURN_IF(type == TYPES, NEAP_UNSUPPORTED,
            "%s: has elements of type '%s'; integers and real numbers (<f2, <f4, <f8) are supported", name,
            npy.type);
  RETURN_IF(npy.rank < 1, NEAP_UNSUPPORTED,
            "%s: is a single number; an array's first dimension must count the records", name);
  const uint64_t data = npy.offset - base;
  RETURN_IF(data > bytes || (uint64_t)npy.count != (bytes - data) / types[type].bytes ||
                (bytes - data) % types[type].bytes != 0,
            NEAP_BAD_FORMAT, "%s: has %llu bytes of data, but its shape asks for %lld elements of %zu", name,
            (unsigned long long)(bytes - data), (long long)npy.count, types[type].bytes);
  RETURN_IF(npy.count == 0, NEAP_BAD_FORMAT, "%s: is empty", name);
  *array = (struct array){.name = name,
                          .descriptor = descriptor,
                          .offset = npy.offset,
                          .type = type,
                          .kind = types[type].kind,
                          .rank = npy.rank,
                          .channels = 1,
                          .each = npy.count / npy.dims[0]};
  memcpy(array->dims, npy.dims, sizeof array->dims);
  return NEAP_OK;
}

/* Returns the place of element `i` of a record. */
static int64_t place_of(const struct array *array, int64_t i) {
  return i % array->channels * (array->each / array->channels) + i / array->channels;
}

neap_status array_read_bytes(const struct array *array, int64_t record, uint8_t *bytes) {
  const uint64_t offset = array->offset + (uint64_t)(record * array->each);
  uint8_t buffer[BUFFER_BYTES];
  if (array->channels == 1)
    return file_need_at(array->name, array->descriptor, offset, bytes, (size_t)array->each);
  for (int64_t done = 0, some; done < array->each; done += some) {
    some = array->each - done < BUFFER_BYTES ? array->each - done : BUFFER_BYTES;
    TRY(file_need_at(array->name, array->descriptor, offset + (uint64_t)done, buffer, (size_t)some));
    for (int64_t i = 0; i < some; i++) bytes[place_of(array, done + i)] = buffer[i];
  }
  return NEAP_OK;
}

/* Element `i`, from bytes as they are in the file. */
#define ELEMENT(c_type)                                                                                      \
  {                                                                                                          \
    c_type value;                                                                                            \
    memcpy(&value, bytes + (size_t)i * sizeof value, sizeof value);                                          \
    return (double)value;                                                                                    \
  }
static double element(enum type type, const uint8_t *bytes, int64_t i) {
  switch (type) {
  case BOOL:
    return bytes[i] != 0;
  case U8:
    return bytes[i];
  case I8:
    ELEMENT(int8_t)
  case U16:
    ELEMENT(uint16_t)
  case I16:
    ELEMENT(int16_t)
  case U32:
    ELEMENT(uint32_t)
  case I32:
    ELEMENT(int32_t)
  case U64:
    ELEMENT(uint64_t)
  case I64:
    ELEMENT(int64_t)
  case F16: {
    uint16_t half;
    memcpy(&half, bytes + (size_t)i * sizeof half, sizeof half);
    return (double)f16_to_float(half);
  }
  case F32:
    ELEMENT(float)
  case F64:
    ELEMENT(double)
  case TYPES:
    break;
  }
  return 0;
}
#undef ELEMENT

/* The destination of a record's numbers: one of the pointers to them is not NULL. */
struct numbers {
  const struct scale *scale; /* of f32 */
  float *f32;
  double *f64;
  int32_t *i32;
};

static neap_status put_number(const struct array *array, int64_t record, int64_t i, double value,
                              const struct numbers *to) {
  const bool real = to->i32 == NULL;
  RETURN_IF(
      !isfinite(value) || (real && !isfinite((float)value)), NEAP_BAD_FORMAT,
      "%s: record %lld, element %lld is %g; numbers must be finite in f32: fill it in or remove the record",
      array->name, (long long)record, (long long)i, value);
  RETURN_IF(!real && (value != floor(value) || fabs(value) > INT32_MAX), NEAP_BAD_FORMAT,
            "%s: record %lld is %g, which is not a class", array->name, (long long)record, value);
  const int64_t place = place_of(array, i);
  if (array->rounded && real) value = (double)(float)value;
  if (to->i32 != NULL) to->i32[i] = (int32_t)value;
  if (to->f64 != NULL) to->f64[place] = value;
  if (to->f32 == NULL) return NEAP_OK;
  to->f32[place] = scale_apply(to->scale, place, value);
  RETURN_IF(
      !isfinite(to->f32[place]), NEAP_BAD_FORMAT,
      "%s: record %lld, element %lld is %g, too far from the training mean to be standardised; fix it or "
      "remove the record",
      array->name, (long long)record, (long long)i, value);
  return NEAP_OK;
}

/* Reads the numbers of a record in several pieces. */
static neap_status read_numbers(const struct array *array, int64_t record, const struct numbers *to) {
  uint8_t buffer[BUFFER_BYTES];
  const size_t size = types[array->type].bytes;
  const int64_t room = (int64_t)(BUFFER_BYTES / size);
  for (int64_t done = 0; done < array->each; done += room) {
    const int64_t left = array->each - done, some = left < room ? left : room;
    TRY(file_need_at(array->name, array->descriptor,
                     array->offset + (uint64_t)(record * array->each + done) * size, buffer,
                     (size_t)some * size));
    for (int64_t i = 0; i < some; i++)
      TRY(put_number(array, record, done + i, element((enum type)array->type, buffer, i), to));
  }
  return NEAP_OK;
}

neap_status array_read_f32(const struct array *array, int64_t record, const struct scale *scale,
                           float *values) {
  return read_numbers(array, record, &(struct numbers){.scale = scale, .f32 = values});
}

neap_status array_read_f64(const struct array *array, int64_t record, double *values) {
  return read_numbers(array, record, &(struct numbers){.f64 = values});
}

neap_status array_read_i32(const struct array *array, int64_t record, int32_t *values) {
  return read_numbers(array, record, &(struct numbers){.i32 = values});
}
