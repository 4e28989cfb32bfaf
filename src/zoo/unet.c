/* U-Net (Ronneberger, Fischer & Brox 2015): convolutions without padding, so that the label map is smaller
 * than the image; what the way down kept is cropped to the way up. Dropout ends the way down. */
#include <stdio.h>

#include "zoo/zoo.h"

enum { LEVELS = 4, USUAL_FILTERS = 64, LEAST_SIDE = 188, SIDE_STEP = 16 };

neap_status check_unet(const struct blueprint *p) {
  const int64_t sides[] = {p->height, p->width};
  for (int i = 0; i < 2; i++)
    RETURN_IF(sides[i] < LEAST_SIDE || (sides[i] - LEAST_SIDE) % SIDE_STEP != 0, NEAP_INVALID_ARGUMENT,
              "unet: images of %lldx%lld pixels; every pooling must see an even size, which sides of %d, %d, "
              "%d, ... 572, ... give",
              (long long)p->height, (long long)p->width, LEAST_SIDE, LEAST_SIDE + SIDE_STEP,
              LEAST_SIDE + 2 * SIDE_STEP);
  return NEAP_OK;
}

static void name_level(neap_builder *b, const char *way, int level) {
  char scope[32];
  snprintf(scope, sizeof scope, "%s%d", way, level + 1);
  neap_scope(b, scope);
}

static neap_tensor two_convolutions(neap_builder *b, neap_tensor x, int64_t filters) {
  for (int i = 0; i < 2; i++)
    x = neap_relu(b, neap_conv(b, x, (neap_conv_options){.filters = filters, .size = 3, .bias = true}));
  return x;
}

/* The centre of `kept` in the size of x, and x. */
static neap_tensor join(neap_builder *b, neap_tensor kept, neap_tensor x) {
  int64_t from[NEAP_MAX_RANK] = {0}, to[NEAP_MAX_RANK] = {0};
  neap_shape(b, kept, from);
  neap_shape(b, x, to);
  const neap_tensor centre = neap_crop(
      b, kept,
      (neap_crop_options){
          .top = (from[2] - to[2]) / 2, .left = (from[3] - to[3]) / 2, .height = to[2], .width = to[3]});
  return neap_concat(b, (neap_tensor[]){centre, x}, 2);
}

neap_tensor build_unet(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  const int64_t filters = p->numbers[0] > 0 ? p->numbers[0] : USUAL_FILTERS;
  neap_tensor kept[LEVELS];
  for (int level = 0; level < LEVELS; level++) {
    name_level(b, "down", level);
    x = two_convolutions(b, x, filters << level);
    if (level == LEVELS - 1) x = neap_dropout(b, x, 0.5f);
    kept[level] = x;
    x = neap_max_pool(b, x, (neap_pool_options){.size = 2});
  }
  neap_scope(b, "bottom");
  x = neap_dropout(b, two_convolutions(b, x, filters << LEVELS), 0.5f);
  for (int level = LEVELS - 1; level >= 0; level--) {
    name_level(b, "up", level);
    x = neap_conv_transposed(
        b, x,
        (neap_conv_transposed_options){.filters = filters << level, .size = 2, .stride = 2, .bias = true});
    x = two_convolutions(b, join(b, kept[level], x), filters << level);
  }
  neap_scope(b, "head");
  return neap_conv(b, x, (neap_conv_options){.filters = p->classes, .size = 1, .bias = true});
}
