/* Pyramid scene parsing (Zhao et al. 2017): a residual network whose last two stages are dilated instead of
 * strided, so that its map is an eighth of the image; means over 1, 4, 9 and 36 regions of it, made as large
 * again, join it. As the authors published it: three 3x3 convolutions in the stem, batch norm everywhere;
 * without the auxiliary loss. */
#include "zoo/zoo.h"

enum { USUAL_DEPTH = 101 };

static int64_t depth_of(const struct blueprint *p) { return p->numbers[0] > 0 ? p->numbers[0] : USUAL_DEPTH; }

neap_status check_pspnet(const struct blueprint *p) {
  RETURN_IF(resnet_find_depth(depth_of(p)) == NULL, NEAP_INVALID_ARGUMENT,
            "pspnet-N: N is 18, 34, 50, 101 or 152, not %lld", (long long)depth_of(p));
  enum { REDUCED = 8, LARGEST_GRID = 6 }; /* by three strides of 2; what the pyramid divides an image into */
  RETURN_IF((p->height + REDUCED - 1) / REDUCED < LARGEST_GRID ||
                (p->width + REDUCED - 1) / REDUCED < LARGEST_GRID,
            NEAP_INVALID_ARGUMENT,
            "pspnet: images of %lldx%lld pixels do not leave the %d rows and columns that are pooled; %d is "
            "the least",
            (long long)p->height, (long long)p->width, LARGEST_GRID, (LARGEST_GRID - 1) * REDUCED + 1);
  return NEAP_OK;
}

static neap_tensor layer(neap_builder *b, neap_tensor x, int64_t filters, int64_t size, int64_t stride) {
  return neap_relu(b, normalise(b, convolve(b, x, filters, size, stride)));
}

static neap_tensor build_backbone(neap_builder *b, neap_tensor x, const struct resnet_depth *d) {
  static const int64_t dilations[RESNET_STAGES] = {1, 1, 2, 4};
  neap_scope(b, "stem");
  x = layer(b, x, 64, 3, 2);
  x = layer(b, x, 64, 3, 1);
  x = layer(b, x, 128, 3, 1);
  x = neap_max_pool(b, x, (neap_pool_options){.size = 3, .stride = 2, .padding = 1});
  int64_t in = 128;
  for (int64_t stage = 0; stage < RESNET_STAGES; stage++)
    for (int64_t i = 1; i <= d->blocks[stage]; i++) {
      const int64_t width = (int64_t)64 << stage;
      name_block(b, stage + 1, i);
      x = resnet_block(b, x, in, width, stage == 1 && i == 1 ? 2 : 1, dilations[stage], d->bottleneck);
      in = d->bottleneck ? 4 * width : width;
    }
  return x;
}

/* x, and what its regions say, each with a quarter of the channels. */
static neap_tensor build_pyramid(neap_builder *b, neap_tensor x, int64_t channels) {
  static const int64_t regions[] = {1, 2, 3, 6};
  enum { PARTS = sizeof regions / sizeof *regions };
  int64_t dims[NEAP_MAX_RANK] = {0};
  neap_shape(b, x, dims);
  neap_tensor parts[PARTS + 1] = {x};
  neap_scope(b, "pyramid");
  for (int i = 0; i < PARTS; i++) {
    const neap_tensor means = neap_adaptive_average_pool(b, x, regions[i]);
    parts[i + 1] = neap_resize(b, layer(b, means, channels / PARTS, 1, 1), dims[2], dims[3], true);
  }
  return neap_concat(b, parts, PARTS + 1, 1);
}

neap_tensor build_pspnet(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  const struct resnet_depth *d = resnet_find_depth(depth_of(p));
  const int64_t channels = d->bottleneck ? 2048 : 512;
  x = build_pyramid(b, build_backbone(b, x, d), channels);
  neap_scope(b, "head");
  x = neap_dropout(b, layer(b, x, channels / 4, 3, 1), 0.1f);
  x = neap_conv(b, x, (neap_conv_options){.filters = p->classes, .size = 1, .bias = true});
  return neap_resize(b, x, p->height, p->width, true);
}
