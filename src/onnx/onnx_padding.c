#include "onnx/onnx_padding.h"

neap_tensor pad_axis(neap_builder *b, neap_tensor x, int32_t axis, int64_t before, int64_t behind,
                     neap_border border, float value) {
  int64_t dims[NEAP_MAX_RANK];
  if ((before == 0 && behind == 0) || neap_shape(b, x, dims) <= axis) return x;
  const int64_t count = dims[axis] + before + behind;
  if (before <= 0 && behind <= 0) return neap_slice(b, x, axis, -before, count);
  return neap_take(b, x, axis, count,
                   (neap_take_options){.first = -before, .border = border, .value = value});
}

neap_tensor pad_all(neap_builder *b, const struct padding *p) {
  neap_tensor x = p->x;
  const int rank = neap_shape(b, x, NULL);
  for (int32_t d = 0; d < rank; d++) x = pad_axis(b, x, d, p->before[d], p->behind[d], p->border, p->value);
  return x;
}
