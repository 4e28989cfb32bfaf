#include "base/dtype.h"

#include <math.h>

#include "base/half.h"

const struct dtype_row dtype_rows[] = {
    [NEAP_F32] = {"f32", 1, 4, "F32", true},
    [NEAP_I32] = {"i32", 1, 4, "I32", false},
    [NEAP_U8] = {"u8", 1, 1, "U8", false},
    [NEAP_F64] = {"f64", 1, 8, "F64", true},
    [NEAP_BIT] = {"bit", 8, 1, NULL, false},
    [NEAP_BF16] = {"bf16", 1, 2, "BF16", true},
    [NEAP_F16] = {"f16", 1, 2, "F16", true},
    [NEAP_U16] = {"u16", 1, 2, "U16", false},
    [NEAP_BLOCK] = {"block", INDEX_BLOCK, 4, NULL, false},
};
const int32_t dtype_count = sizeof dtype_rows / sizeof *dtype_rows;

double dtype_real(neap_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
  case NEAP_F64:
    return ((const double *)data)[i];
  case NEAP_BF16:
    return (double)bf16_to_float(((const uint16_t *)data)[i]);
  case NEAP_F16:
    return (double)f16_to_float(((const uint16_t *)data)[i]);
  case NEAP_F32:
    return (double)((const float *)data)[i];
  case NEAP_I32:
  case NEAP_U8:
  case NEAP_BIT:
  case NEAP_U16:
  case NEAP_BLOCK:
    break;
  }
  return NAN;
}

void dtype_set_real(neap_dtype dtype, void *data, int64_t i, double value) {
  switch (dtype) {
  case NEAP_F64:
    ((double *)data)[i] = value;
    break;
  case NEAP_BF16:
    ((uint16_t *)data)[i] = bf16_from_float((float)value);
    break;
  case NEAP_F16:
    ((uint16_t *)data)[i] = f16_from_float((float)value);
    break;
  case NEAP_F32:
    ((float *)data)[i] = (float)value;
    break;
  case NEAP_I32:
  case NEAP_U8:
  case NEAP_BIT:
  case NEAP_U16:
  case NEAP_BLOCK:
    break;
  }
}
