#include "op/window.h"

neap_status window_count(const struct node *node, const struct tensor *x, struct window_axis a,
                         int64_t *count) {
  RETURN_IF(a.stride < 1 || a.dilation < 1 || a.padding < 0, NEAP_INVALID_ARGUMENT,
            "%s '%s': stride %lld and dilation %lld must be 1 or more, padding %lld 0 or more",
            node_row(node)->name, node->name, (long long)a.stride, (long long)a.dilation,
            (long long)a.padding);
  int64_t extent, padded, twice;
  const bool overflow = __builtin_mul_overflow(a.window - 1, a.dilation, &extent) ||
                        __builtin_add_overflow(extent, (int64_t)1, &extent) ||
                        __builtin_mul_overflow(a.padding, (int64_t)2, &twice) ||
                        __builtin_add_overflow(a.size, twice, &padded);
  RETURN_IF(
      a.stride > INT32_MAX || a.window < 1 || overflow || padded > INT32_MAX || extent > padded,
      NEAP_INVALID_ARGUMENT,
      "%s '%s': a window of %lld (dilation %lld, stride %lld, padding %lld) does not fit the %lld pixels "
      "of '%s' %s",
      node_row(node)->name, node->name, (long long)a.window, (long long)a.dilation, (long long)a.stride,
      (long long)a.padding, (long long)a.size, x->name, shape_text(x).text);
  *count = (padded - extent) / a.stride + 1;
  if (a.ceil && (padded - extent) % a.stride != 0 && *count * a.stride < a.size + a.padding) ++*count;
  return NEAP_OK;
}
