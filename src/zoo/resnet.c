/* Residual networks on large images (He et al. 2016a), the stride in the 3x3 convolution. */
#include "zoo/zoo.h"

static neap_tensor dilated(neap_builder *b, neap_tensor x, int64_t filters, int64_t stride,
                           int64_t dilation) {
  return neap_conv(
      b, x,
      (neap_conv_options){
          .filters = filters, .size = 3, .stride = stride, .padding = dilation, .dilation = dilation});
}

neap_tensor resnet_block(neap_builder *b, neap_tensor x, int64_t in, int64_t width, int64_t stride,
                         int64_t dilation, bool bottleneck) {
  const int64_t out = bottleneck ? 4 * width : width;
  neap_tensor y;
  if (bottleneck) {
    y = neap_relu(b, normalise(b, convolve(b, x, width, 1, 1)));
    y = neap_relu(b, normalise(b, dilated(b, y, width, stride, dilation)));
    y = normalise(b, convolve(b, y, out, 1, 1));
  } else {
    y = neap_relu(b, normalise(b, dilated(b, x, width, stride, dilation)));
    y = normalise(b, dilated(b, y, width, 1, dilation));
  }
  const neap_tensor shortcut = in != out || stride != 1 ? normalise(b, convolve(b, x, out, 1, stride)) : x;
  return neap_relu(b, neap_add(b, y, shortcut));
}

static neap_tensor build(neap_builder *b, neap_tensor x, const int64_t blocks[RESNET_STAGES], bool bottleneck,
                         int64_t classes) {
  neap_scope(b, "stem");
  x = neap_relu(b, normalise(b, convolve(b, x, 64, 7, 2)));
  x = neap_max_pool(b, x, (neap_pool_options){.size = 3, .stride = 2, .padding = 1});
  int64_t in = 64;
  for (int64_t stage = 0; stage < RESNET_STAGES; stage++)
    for (int64_t i = 1; i <= blocks[stage]; i++) {
      const int64_t width = (int64_t)64 << stage;
      name_block(b, stage + 1, i);
      x = resnet_block(b, x, in, width, stage > 0 && i == 1 ? 2 : 1, 1, bottleneck);
      in = bottleneck ? 4 * width : width;
    }
  neap_scope(b, "head");
  return neap_linear(b, neap_global_average_pool(b, x), classes, true);
}

static const struct resnet_depth depths[] = {
    {18, {2, 2, 2, 2}, false},  {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
    {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true},
};

const struct resnet_depth *resnet_find_depth(int64_t depth) {
  for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
    if (depths[i].depth == depth) return &depths[i];
  return NULL;
}

neap_status check_resnet(const struct blueprint *p) {
  RETURN_IF(resnet_find_depth(p->numbers[0]) == NULL, NEAP_INVALID_ARGUMENT,
            "resnetN: N is 18, 34, 50, 101 or 152, not %lld", (long long)p->numbers[0]);
  return NEAP_OK;
}

neap_tensor build_resnet(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  const struct resnet_depth *d = resnet_find_depth(p->numbers[0]);
  return build(b, x, d->blocks, d->bottleneck, p->classes);
}

neap_status check_bottlenecks(const struct blueprint *p) {
  for (int i = 0; i < RESNET_STAGES; i++)
    RETURN_IF(p->numbers[i] > 1000, NEAP_INVALID_ARGUMENT,
              "resnet-bottleneck: at most 1000 blocks a stage, not %lld", (long long)p->numbers[i]);
  return NEAP_OK;
}

neap_tensor build_bottlenecks(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  return build(b, x, p->numbers, true, p->classes);
}
