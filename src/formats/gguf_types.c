#include "formats/gguf_types.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format is little-endian and data is copied as it is");

/* ---- Types ---- */

static const struct gguf_tensor_type tensor_types[] = {
    {0, "F32", 1, 4, NEAP_F32},
    {1, "F16", 1, 2, NEAP_F16},
    {2, "Q4_0", 32, 18, NEAP_Q4_0},
    {3, "Q4_1", 32, 20, NEAP_Q4_1},
    {6, "Q5_0", 32, 22, NEAP_Q5_0},
    {7, "Q5_1", 32, 24, NEAP_Q5_1},
    {8, "Q8_0", 32, 34, NEAP_Q8_0},
    {9, "Q8_1", 32, 36, -1},
    {10, "Q2_K", 256, 84, -1},
    {11, "Q3_K", 256, 110, -1},
    {12, "Q4_K", 256, 144, NEAP_Q4_K},
    {13, "Q5_K", 256, 176, NEAP_Q5_K},
    {14, "Q6_K", 256, 210, NEAP_Q6_K},
    {15, "Q8_K", 256, 292, -1},
    {16, "IQ2_XXS", 256, 66, -1},
    {17, "IQ2_XS", 256, 74, -1},
    {18, "IQ3_XXS", 256, 98, -1},
    {19, "IQ1_S", 256, 50, -1},
    {20, "IQ4_NL", 32, 18, -1},
    {21, "IQ3_S", 256, 110, -1},
    {22, "IQ2_S", 256, 82, -1},
    {23, "IQ4_XS", 256, 136, -1},
    {24, "I8", 1, 1, -1},
    {25, "I16", 1, 2, -1},
    {26, "I32", 1, 4, -1},
    {27, "I64", 1, 8, -1},
    {28, "F64", 1, 8, -1},
    {29, "IQ1_M", 256, 56, -1},
    {30, "BF16", 1, 2, NEAP_BF16},
    {34, "TQ1_0", 256, 54, -1},
    {35, "TQ2_0", 256, 66, -1},
    {39, "MXFP4", 32, 17, -1},
    {40, "NVFP4", 64, 36, -1},
    {41, "Q1_0", 128, 18, -1},
};
enum { TENSOR_TYPES = sizeof tensor_types / sizeof *tensor_types };

const struct gguf_tensor_type *gguf_find_type(int64_t number) {
  for (int i = 0; i < TENSOR_TYPES; i++)
    if (tensor_types[i].number == number) return &tensor_types[i];
  return NULL;
}

const char *gguf_type_name(int32_t type) {
  const struct gguf_tensor_type *row = gguf_find_type(type);
  return row != NULL ? row->name : NULL;
}

size_t gguf_value_bytes(enum gguf_type type) {
  static const uint8_t bytes[] = {
      [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2,  [GGUF_I16] = 2,    [GGUF_U32] = 4,
      [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_STRING] = 0, [GGUF_ARRAY] = 0,
      [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
  return bytes[type];
}

const struct gguf_tensor_type *gguf_type_of(neap_dtype dtype) {
  for (int i = 0; i < TENSOR_TYPES; i++)
    if (tensor_types[i].dtype == (int32_t)dtype) return &tensor_types[i];
  return NULL;
}

int64_t gguf_row_elements(const struct gguf_tensor *tensor) {
  return tensor->rank > 0 ? tensor->dims[tensor->rank - 1] : 1;
}

/* ---- Values ---- */

bool gguf_integer_of(enum gguf_type type, const void *data, int64_t *value) {
  const bool is_signed = type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
  const bool is_unsigned =
      type == GGUF_U8 || type == GGUF_BOOL || type == GGUF_U16 || type == GGUF_U32 || type == GGUF_U64;
  if (!is_signed && !is_unsigned) return false;
  const size_t bytes = gguf_value_bytes(type), rest = 8 * (sizeof(uint64_t) - bytes);
  uint64_t bits = 0;
  memcpy(&bits, data, bytes);
  if (is_signed)
    *value = (int64_t)(bits << rest) >> rest;
  else
    *value = bits <= INT64_MAX ? (int64_t)bits : INT64_MAX;
  return is_signed || bits <= INT64_MAX;
}

bool gguf_real_of(enum gguf_type type, const void *data, double *value) {
  float f32;
  if (type == GGUF_F64) memcpy(value, data, sizeof *value);
  if (type == GGUF_F32) {
    memcpy(&f32, data, sizeof f32);
    *value = (double)f32;
  }
  return type == GGUF_F64 || type == GGUF_F32;
}

static const void *element(const struct gguf_array *array, int64_t i) {
  return (const unsigned char *)array->data + (size_t)i * gguf_value_bytes(array->type);
}

int64_t gguf_integer_at(const struct gguf_array *array, int64_t i) {
  int64_t value = 0;
  gguf_integer_of(array->type, element(array, i), &value);
  return value;
}

double gguf_real_at(const struct gguf_array *array, int64_t i) {
  double value = 0;
  gguf_real_of(array->type, element(array, i), &value);
  return value;
}

neap_status gguf_alignment(const char *path, neap_status failure, const struct gguf_pair *pair,
                           uint32_t *alignment) {
  *alignment = 32;
  if (pair == NULL) return NEAP_OK;
  *alignment = (uint32_t)pair->scalar;
  RETURN_IF(pair->type != GGUF_U32 || *alignment == 0 || (*alignment & (*alignment - 1)) != 0, failure,
            "%s: key 'general.alignment' must be a u32 and a power of 2", path);
  return NEAP_OK;
}
