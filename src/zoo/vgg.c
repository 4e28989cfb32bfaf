/* Plain deep networks (Simonyan & Zisserman 2015). */
#include "zoo/zoo.h"

neap_status check_vgg(const struct blueprint *p) {
  RETURN_IF(p->numbers[0] != 16 && p->numbers[0] != 19, NEAP_INVALID_ARGUMENT,
            "vggN: N is 16 or 19, not %lld", (long long)p->numbers[0]);
  return NEAP_OK;
}

neap_tensor build_vgg(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  static const int64_t filters[] = {64, 128, 256, 512, 512};
  for (int64_t stage = 0; stage < 5; stage++) {
    const int64_t layers = stage < 2 ? 2 : p->numbers[0] == 16 ? 3 : 4;
    for (int64_t i = 1; i <= layers; i++) {
      name_block(b, stage + 1, i);
      x = neap_conv(b, x,
                    (neap_conv_options){.filters = filters[stage], .size = 3, .padding = 1, .bias = true});
      if (p->batch_norm) x = normalise(b, x);
      x = neap_relu(b, x);
    }
    x = neap_max_pool(b, x, (neap_pool_options){.size = 2});
  }
  neap_scope(b, "head");
  x = neap_flatten(b, x);
  for (int i = 0; i < 2; i++) x = neap_dropout(b, neap_relu(b, neap_linear(b, x, 4096, true)), 0.5f);
  return neap_linear(b, x, p->classes, true);
}
