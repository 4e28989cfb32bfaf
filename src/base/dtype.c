#include "base/dtype.h"

#include <math.h>

#include "base/half.h"

const struct dtype_row dtype_rows[] = {
    [NEAP_F32] = {"f32", DTYPE_REAL, 1, 4, "F32"},
    [NEAP_I32] = {"i32", DTYPE_INTEGER, 1, 4, "I32"},
    [NEAP_U8] = {"u8", DTYPE_INTEGER, 1, 1, "U8"},
    [NEAP_F64] = {"f64", DTYPE_REAL, 1, 8, "F64"},
    [NEAP_BIT] = {"bit", DTYPE_INDEX, 8, 1, NULL},
    [NEAP_BF16] = {"bf16", DTYPE_REAL, 1, 2, "BF16"},
    [NEAP_F16] = {"f16", DTYPE_REAL, 1, 2, "F16"},
    [NEAP_U16] = {"u16", DTYPE_INTEGER, 1, 2, "U16"},
    [NEAP_BLOCK] = {"block", DTYPE_INDEX, INDEX_BLOCK, 4, NULL},
    [NEAP_Q8_0] = {"q8_0", DTYPE_QUANTISED, 32, 34, "Q8_0"},
    [NEAP_Q4_0] = {"q4_0", DTYPE_QUANTISED, 32, 18, "Q4_0"},
    [NEAP_Q4_1] = {"q4_1", DTYPE_QUANTISED, 32, 20, "Q4_1"},
    [NEAP_Q5_0] = {"q5_0", DTYPE_QUANTISED, 32, 22, "Q5_0"},
    [NEAP_Q5_1] = {"q5_1", DTYPE_QUANTISED, 32, 24, "Q5_1"},
    [NEAP_Q4_K] = {"q4_k", DTYPE_QUANTISED, 256, 144, "Q4_K"},
    [NEAP_Q5_K] = {"q5_k", DTYPE_QUANTISED, 256, 176, "Q5_K"},
    [NEAP_Q6_K] = {"q6_k", DTYPE_QUANTISED, 256, 210, "Q6_K"},
    [NEAP_NF4] = {"nf4", DTYPE_QUANTISED, 64, 36, "NF4"},
    [NEAP_I8] = {"i8", DTYPE_QUANTISED, 64, 68, "I8_ROW"},
    [NEAP_DYN8S] = {"dyn8s", DTYPE_QUANTISED, 256, 260, "DYN8S"},
    [NEAP_DYN8U] = {"dyn8u", DTYPE_QUANTISED, 256, 260, "DYN8U"},
    [NEAP_C8] = {"c8", DTYPE_QUANTISED, 256, 260, NULL},
    [NEAP_C4] = {"c4", DTYPE_QUANTISED, 256, 132, NULL},
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
  CASES_NOT_REAL:
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
  CASES_NOT_REAL:
    break;
  }
}
