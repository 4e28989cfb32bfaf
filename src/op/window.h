/* Windows that move along an axis of an image. */
#ifndef NEAP_OP_WINDOW_H
#define NEAP_OP_WINDOW_H

#include "op/op.h"

struct window_axis {
  int64_t size, window, stride, padding, dilation;
  bool ceil;
};

/* Counts the windows along an axis of `x`: (size + 2 padding - dilation (window - 1) - 1) / stride + 1.
 * Fails, naming the node and the shape, if it finds none. Rounded up, the last window must still begin
 * inside the image or the padding before it. */
neap_status window_count(const struct node *node, const struct tensor *x, struct window_axis axis,
                         int64_t *count);

#endif
