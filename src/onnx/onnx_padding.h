/* Padding of tensors. */
#ifndef NEAP_ONNX_ONNX_PADDING_H
#define NEAP_ONNX_ONNX_PADDING_H

#include "op/builder.h"

/* Padding that is not in the graph yet. */
struct padding {
  neap_tensor x; /* the tensor that is padded */
  int64_t before[NEAP_MAX_RANK], behind[NEAP_MAX_RANK];
  neap_border border;
  float value;
};

/* Pads one axis; negative numbers of elements cut. */
neap_tensor pad_axis(neap_builder *b, neap_tensor x, int32_t axis, int64_t before, int64_t behind,
                     neap_border border, float value);

/* Pads all axes. */
neap_tensor pad_all(neap_builder *b, const struct padding *padding);

#endif
