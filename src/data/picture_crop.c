#include "data/picture_crop.h"

#include <math.h>

#include "base/elementary.h"
#include "data/stream.h"

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

void crop_centre(int64_t picture_height, int64_t picture_width, int64_t height, int64_t width,
                 struct box *box, struct target *target) {
  const bool tall = picture_height * width >= picture_width * height; /* its width just covers */
  *box = (struct box){0, 0, picture_width, picture_height};
  target->height = !tall ? height : (int64_t)((double)(width * picture_height) / (double)picture_width);
  target->width = tall ? width : (int64_t)((double)(height * picture_width) / (double)picture_height);
  target->height = most(target->height, height);
  target->width = most(target->width, width);
  target->kept = (struct box){llrint((double)(target->width - width) / 2),
                              llrint((double)(target->height - height) / 2), width, height};
}

static double between(double low, double high, uint32_t bits) {
  return low + (high - low) * (bits * 0x1p-32);
}

/* Returns the box in the middle that is as large as the ratios allow; used if no box that was drawn fits. */
static struct box middle_box(int64_t picture_height, int64_t picture_width, double narrow, double wide) {
  const double ratio = (double)picture_width / (double)picture_height;
  struct box box = {0, 0, picture_width, picture_height};
  if (ratio < narrow) box.height = llrint((double)picture_width / narrow);
  if (ratio > wide) box.width = llrint((double)picture_height * wide);
  box.left = (picture_width - box.width) / 2;
  box.top = (picture_height - box.height) / 2;
  return box;
}

void crop_at_random(int64_t picture_height, int64_t picture_width, int64_t height, int64_t width,
                    const struct draw *draw, int64_t record, struct box *box, struct target *target) {
  enum { ATTEMPTS = 10 };
  static const double narrow = 3 / 4.0, wide = 4 / 3.0, least = 0.08;
  const double area = (double)(picture_height * picture_width);
  *target = (struct target){height, width, {0, 0, width, height}};
  for (uint64_t attempt = 1; attempt <= ATTEMPTS; attempt++) { /* 0 is the flip's */
    uint32_t bits[4];
    data_random(draw->seed, STREAM_AUGMENT, (uint64_t)draw->epoch, attempt << 40 | (uint64_t)record, bits);
    const double part = area * between(least, 1, bits[0]),
                 ratio = natural_exponential(
                     between(natural_logarithm(narrow), natural_logarithm(wide), bits[1]));
    const int64_t w = llrint(sqrt(part * ratio)), h = llrint(sqrt(part / ratio));
    if (w < 1 || w > picture_width || h < 1 || h > picture_height) continue;
    *box = (struct box){random_below(bits[3], (uint64_t)(picture_width - w + 1)),
                        random_below(bits[2], (uint64_t)(picture_height - h + 1)), w, h};
    return;
  }
  *box = middle_box(picture_height, picture_width, narrow, wide);
}
