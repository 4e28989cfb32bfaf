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

/* A deep network of low rank (arXiv 2605.10777 puts one in place of an MLP): each block adds U silu(V x) to
 * its vector of `width`, with V [rank, width]. */
static neap_tensor add_low_rank_blocks(neap_builder *b, neap_tensor x, int64_t width, int64_t rank,
                                       int64_t blocks) {
  for (int64_t i = 0; i < blocks; i++) {
    const neap_tensor inner = neap_silu(b, neap_linear(b, x, rank, false));
    x = neap_add(b, x, neap_linear(b, inner, width, false));
  }
  return x;
}

neap_status check_dlr(const struct blueprint *p) {
  static const int64_t most[] = {1 << 10, 1 << 16, 1 << 16, 1 << 12};
  static const char *const what[] = {"layers", "width", "rank", "blocks"};
  for (int i = 0; i < 4; i++)
    RETURN_IF(p->numbers[i] < 1 || p->numbers[i] > most[i], NEAP_INVALID_ARGUMENT,
              "dlr: the %s must be 1 to %lld (got %lld)", what[i], (long long)most[i],
              (long long)p->numbers[i]);
  return NEAP_OK;
}

neap_tensor build_dlr(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  const int64_t width = p->numbers[1];
  x = neap_linear(b, neap_flatten(b, x), width, true);
  for (int64_t i = 0; i < p->numbers[0]; i++) {
    const neap_tensor norm = neap_rms_norm(b, x, 1e-6f);
    x = neap_add(b, x, add_low_rank_blocks(b, norm, width, p->numbers[2], p->numbers[3]));
  }
  return neap_linear(b, neap_rms_norm(b, x, 1e-6f), p->classes, true);
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
