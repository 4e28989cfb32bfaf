/* Inverted residuals with linear bottlenecks and depthwise convolutions (Sandler et al. 2018). */
#include "zoo/zoo.h"

static neap_tensor active(neap_builder *b, neap_tensor x) { return neap_relu6(b, normalise(b, x)); }

static neap_tensor block(neap_builder *b, neap_tensor x, int64_t in, int64_t out, int64_t stride,
                         int64_t expansion) {
  const int64_t width = in * expansion;
  neap_tensor y = x;
  if (expansion > 1) y = active(b, convolve(b, y, width, 1, 1));
  y = neap_conv(
      b, y,
      (neap_conv_options){.filters = width, .size = 3, .stride = stride, .padding = 1, .groups = width});
  y = normalise(b, convolve(b, active(b, y), out, 1, 1));
  return in == out && stride == 1 ? neap_add(b, x, y) : y;
}

neap_tensor build_mobilenet_v2(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  static const struct {
    int64_t expansion, channels, blocks, stride;
  } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  neap_scope(b, "stem");
  x = active(b, convolve(b, x, 32, 3, 2));
  int64_t in = 32;
  for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
    for (int64_t i = 1; i <= stages[s].blocks; i++) {
      name_block(b, (int64_t)s + 1, i);
      x = block(b, x, in, stages[s].channels, i == 1 ? stages[s].stride : 1, stages[s].expansion);
      in = stages[s].channels;
    }
  neap_scope(b, "head");
  x = neap_global_average_pool(b, active(b, convolve(b, x, 1280, 1, 1)));
  return neap_linear(b, neap_dropout(b, x, 0.2f), p->classes, true);
}
