#include "base/quantised.h"

#include <float.h>
#include <math.h>

static const float q8_0_largest = 127 * 65504.0f; /* the largest f16 */

/* As quantize_row_q8_0_ref of ggml: the scale is the largest size over 127, rounded to f16; numbers are
 * rounded, halves away from 0, by the scale before that was rounded. Below FLT_MIN, where ggml's inverse may
 * be infinite, they are 0, as the scale is. False: a number does not fit. */
static bool q8_0_from_floats(const float *x, void *block) {
  struct q8_0 b;
  float most = 0;
  for (int i = 0; i < Q8_0_ELEMENTS; i++) {
    const float size = fabsf(x[i]);
    if (!(size <= q8_0_largest)) return false;
    most = size > most ? size : most;
  }
  const float scale = most / 127, inverse = scale >= FLT_MIN ? 1 / scale : 0;
  for (int i = 0; i < Q8_0_ELEMENTS; i++) b.q[i] = (int8_t)roundf(x[i] * inverse);
  b.scale = f16_from_float(scale);
  memcpy(block, &b, sizeof b);
  return true;
}

/* Says which of the elements from `i` on does not fit. */
static neap_status fail_element(const char *name, const float *x, int64_t i) {
  while (fabsf(x[i]) <= q8_0_largest) i++;
  return neap_fail(NEAP_INVALID_ARGUMENT, "'%s': element %lld is %g, but %s holds numbers from -%g to %g",
                   name, (long long)i, (double)x[i], dtype_rows[NEAP_Q8_0].name, (double)q8_0_largest,
                   (double)q8_0_largest);
}

neap_status quantise(neap_dtype dtype, const char *name, int64_t count, const float *x, void *blocks) {
  unsigned char *block = (unsigned char *)blocks;
  switch (dtype) {
  case NEAP_Q8_0:
    for (int64_t i = 0; i < count; i += Q8_0_ELEMENTS, block += sizeof(struct q8_0))
      if (!q8_0_from_floats(x + i, block)) return fail_element(name, x, i);
    return NEAP_OK;
  CASES_NOT_QUANTISED:
    break;
  }
  return neap_fail(NEAP_INTERNAL, "'%s': %s is no quantised type", name, dtype_rows[dtype].name);
}
