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

/* Returns the length of an image's side when the way up reaches a level. */
static int64_t side_at(int64_t side, int level) {
  for (int i = 0; i < LEVELS; i++) side = (side - 4) / 2;
  for (int i = LEVELS; i > level; i--) side = (side - 4) * 2;
  return side;
}

/* Cropped on the way down already: of the rest nothing has to be kept. */
static neap_tensor centre(neap_builder *b, neap_tensor x, int level, const struct blueprint *p) {
  int64_t dims[NEAP_MAX_RANK] = {0};
  neap_shape(b, x, dims);
  const int64_t height = side_at(p->height, level), width = side_at(p->width, level);
  return neap_crop(
      b, x,
      (neap_crop_options){
          .top = (dims[2] - height) / 2, .left = (dims[3] - width) / 2, .height = height, .width = width});
}

neap_tensor build_unet(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  const int64_t filters = p->numbers[0] > 0 ? p->numbers[0] : USUAL_FILTERS;
  neap_tensor kept[LEVELS];
  for (int level = 0; level < LEVELS; level++) {
    name_level(b, "down", level);
    x = two_convolutions(b, x, filters << level);
    if (level == LEVELS - 1) x = neap_dropout(b, x, 0.5f);
    kept[level] = centre(b, x, level, p);
    x = neap_max_pool(b, x, (neap_pool_options){.size = 2});
  }
  neap_scope(b, "bottom");
  x = neap_dropout(b, two_convolutions(b, x, filters << LEVELS), 0.5f);
  for (int level = LEVELS - 1; level >= 0; level--) {
    name_level(b, "up", level);
    x = neap_conv_transposed(
        b, x,
        (neap_conv_transposed_options){.filters = filters << level, .size = 2, .stride = 2, .bias = true});
    x = two_convolutions(b, neap_concat(b, (neap_tensor[]){kept[level], x}, 2, 1), filters << level);
  }
  neap_scope(b, "head");
  return neap_conv(b, x, (neap_conv_options){.filters = p->classes, .size = 1, .bias = true});
}
