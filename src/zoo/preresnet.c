/* Pre-activation residual networks on small images (He et al. 2016b) and their wide kin (Zagoruyko &
 * Komodakis 2016). */
#include "zoo/zoo.h"

enum { STAGES = 3, STEM = 16 };

/* One block: each convolution reads BatchNorm + ReLU of what comes before; where the width changes the
 * shortcut is a 1x1 convolution of the activated input. `bottleneck`: 1x1, 3x3, 1x1 instead of two 3x3. */
static neap_tensor block(neap_builder *b, neap_tensor x, int64_t in, int64_t out, int64_t stride,
                         bool bottleneck) {
  const neap_tensor active = neap_relu(b, normalise(b, x));
  const neap_tensor shortcut = in != out ? convolve(b, active, out, 1, stride) : x;
  neap_tensor y;
  if (bottleneck) {
    y = convolve(b, active, out / 4, 1, stride);
    y = convolve(b, neap_relu(b, normalise(b, y)), out / 4, 3, 1);
    y = convolve(b, neap_relu(b, normalise(b, y)), out, 1, 1);
  } else {
    y = convolve(b, active, out, 3, stride);
    y = convolve(b, neap_relu(b, normalise(b, y)), out, 3, 1);
  }
  return neap_add(b, y, shortcut);
}

static neap_tensor build(neap_builder *b, neap_tensor x, int64_t blocks, int64_t first_width, bool bottleneck,
                         int64_t classes) {
  neap_scope(b, "stem");
  x = convolve(b, x, STEM, 3, 1);
  int64_t in = STEM, out = first_width;
  for (int64_t stage = 1; stage <= STAGES; stage++, out *= 2)
    for (int64_t i = 1; i <= blocks; i++) {
      name_block(b, stage, i);
      x = block(b, x, in, out, stage > 1 && i == 1 ? 2 : 1, bottleneck);
      in = out;
    }
  neap_scope(b, "head");
  x = neap_global_average_pool(b, neap_relu(b, normalise(b, x)));
  return neap_linear(b, x, classes, true);
}

neap_status check_wrn(const struct blueprint *p) {
  RETURN_IF(p->numbers[0] < 10 || p->numbers[0] > 1000 || (p->numbers[0] - 4) % 6 != 0 || p->numbers[1] > 64,
            NEAP_INVALID_ARGUMENT,
            "wrn-D-K: the depth D is 6n+4, from 10 to 1000 (16, 22, 28, 40, ...), the width K 1 to 64; not "
            "wrn-%lld-%lld",
            (long long)p->numbers[0], (long long)p->numbers[1]);
  return NEAP_OK;
}

neap_tensor build_wrn(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  return build(b, x, (p->numbers[0] - 4) / 6, STEM * p->numbers[1], false, p->classes);
}

/* Depths of He et al. 2016b: bottlenecks in the 164 and 1001 layer networks. */
static bool is_bottleneck(int64_t depth) { return depth >= 164 && (depth - 2) % 9 == 0; }

neap_status check_preresnet(const struct blueprint *p) {
  const int64_t depth = p->numbers[0];
  RETURN_IF(depth < 8 || depth > 1001 || (!is_bottleneck(depth) && (depth - 2) % 6 != 0),
            NEAP_INVALID_ARGUMENT,
            "preresnet-N: the depth N is 6n+2, from 8 on (20, 56, 110, ...), or 9n+2 from 164 on (164, "
            "1001), at most 1001; not %lld",
            (long long)depth);
  return NEAP_OK;
}

neap_tensor build_preresnet(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  const bool bottleneck = is_bottleneck(p->numbers[0]);
  return build(b, x, (p->numbers[0] - 2) / (bottleneck ? 9 : 6), bottleneck ? 4 * STEM : STEM, bottleneck,
               p->classes);
}
