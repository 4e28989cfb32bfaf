#include "zoo/zoo.h"

neap_tensor build_mlp(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  x = neap_flatten(b, x);
  for (int i = 0; i < 2; i++) x = neap_relu(b, neap_linear(b, x, 256, true));
  return neap_linear(b, x, p->classes, true);
}

/* Hidden layers of the numbers of the name. */
neap_tensor build_layers(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  x = neap_flatten(b, x);
  for (int i = 0; i < 4 && p->numbers[i] > 0; i++) x = neap_relu(b, neap_linear(b, x, p->numbers[i], true));
  return neap_linear(b, x, p->classes, true);
}

/* LeNet-5's shape with ReLU, maximum pooling and a few more filters, which reach 99 % on MNIST. */
neap_tensor build_lenet(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  static const int64_t filters[] = {16, 32};
  for (int i = 0; i < 2; i++) {
    x = neap_conv(b, x, (neap_conv_options){.filters = filters[i], .size = 5, .padding = 2, .bias = true});
    x = neap_max_pool(b, neap_relu(b, x), (neap_pool_options){.size = 2});
  }
  x = neap_relu(b, neap_linear(b, neap_flatten(b, x), 120, true));
  x = neap_relu(b, neap_linear(b, x, 84, true));
  return neap_linear(b, x, p->classes, true);
}
