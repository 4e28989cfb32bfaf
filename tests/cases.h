/* The one list of operator cases: small networks with the operator in the middle, so that its value and every gradient of it
 * count. The tests run each on both backends, in both memory formats (channels in blocks of 16 or not), in place and not. */
#ifndef NEAP_TESTS_CASES_H
#define NEAP_TESTS_CASES_H

#include "neap.h"

struct operator_case {
  const char *name;
  int64_t images, channels, height, width; /* of the operator's input */
  neap_tensor (*apply)(neap_builder *b, neap_tensor x);
};

#define CONV(name, ...)                                                                                      \
  static neap_tensor name(neap_builder *b, neap_tensor x) { return neap_conv(b, x, (neap_conv_options){__VA_ARGS__}); }
CONV(conv_3x3, .filters = 16, .size = 3, .padding = 1)
CONV(conv_3x3_bias, .filters = 16, .size = 3, .padding = 1, .bias = true)
CONV(conv_stride, .filters = 16, .size = 3, .stride = 2, .padding = 1)
CONV(conv_1x1, .filters = 32, .size = 1)
CONV(conv_1x1_stride, .filters = 16, .size = 1, .stride = 2)
CONV(conv_5x5_odd, .filters = 6, .size = 5, .padding = 2, .bias = true)
CONV(conv_no_padding, .filters = 5, .size = 3)
CONV(conv_7x7, .filters = 16, .size = 7, .stride = 2, .padding = 3)
CONV(conv_dilated, .filters = 16, .size = 3, .padding = 2, .dilation = 2)
CONV(conv_groups, .filters = 8, .size = 3, .padding = 1, .groups = 2)
CONV(conv_depthwise, .filters = 8, .size = 3, .padding = 1, .groups = 8)
CONV(conv_64, .filters = 64, .size = 3, .padding = 1)

static neap_tensor norm(neap_builder *b, neap_tensor x) { return neap_batch_norm(b, x, (neap_batch_norm_options){0}); }
static neap_tensor norm_relu(neap_builder *b, neap_tensor x) { return neap_relu(b, norm(b, x)); }
static neap_tensor norm_flat(neap_builder *b, neap_tensor x) { return norm(b, neap_flatten(b, x)); }
static neap_tensor relu(neap_builder *b, neap_tensor x) { return neap_relu(b, x); }
static neap_tensor add_self(neap_builder *b, neap_tensor x) { return neap_add(b, x, x); }
static neap_tensor residual(neap_builder *b, neap_tensor x) {
  const neap_tensor y = neap_conv(b, norm_relu(b, x), (neap_conv_options){.filters = 16, .size = 3, .padding = 1});
  return neap_add(b, y, x);
}
static neap_tensor residual_bias(neap_builder *b, neap_tensor x) {
  return neap_add(b, x, neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 1, .bias = true}));
}
static neap_tensor residual_relu(neap_builder *b, neap_tensor x) {
  const neap_tensor y = norm(b, neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 3, .padding = 1}));
  return neap_relu(b, neap_add(b, y, x));
}
static neap_tensor max_pool(neap_builder *b, neap_tensor x) { return neap_max_pool(b, x, (neap_pool_options){.size = 2}); }
static neap_tensor max_pool_padded(neap_builder *b, neap_tensor x) {
  return neap_max_pool(b, x, (neap_pool_options){.size = 3, .stride = 2, .padding = 1});
}
static neap_tensor average_pool(neap_builder *b, neap_tensor x) { return neap_average_pool(b, x, (neap_pool_options){.size = 2}); }
static neap_tensor average_pool_padded(neap_builder *b, neap_tensor x) {
  return neap_average_pool(b, x, (neap_pool_options){.size = 3, .stride = 2, .padding = 1});
}
static neap_tensor global_pool(neap_builder *b, neap_tensor x) { return neap_global_average_pool(b, x); }
static neap_tensor linear(neap_builder *b, neap_tensor x) { return neap_relu(b, neap_linear(b, neap_flatten(b, x), 12, true)); }
static neap_tensor linear_plain(neap_builder *b, neap_tensor x) { return neap_linear(b, neap_flatten(b, x), 7, false); }
static neap_tensor dropout(neap_builder *b, neap_tensor x) { return neap_dropout(b, x, 0.3f); }
static neap_tensor dropout_flat(neap_builder *b, neap_tensor x) { return neap_dropout(b, neap_flatten(b, x), 0.5f); }
static neap_tensor reshape(neap_builder *b, neap_tensor x) {
  return neap_linear(b, neap_reshape(b, x, 2, (int64_t[]){-1, 16}), 5, true);
}

static const struct operator_case operator_cases[] = {
    {"conv 3x3, blocks", 3, 16, 6, 7, conv_3x3},
    {"conv 3x3 bias, blocks", 2, 16, 6, 6, conv_3x3_bias},
    {"conv 3x3 stride 2, blocks", 2, 32, 7, 7, conv_stride},
    {"conv 1x1, blocks", 2, 16, 5, 5, conv_1x1},
    {"conv 1x1 stride 2, blocks", 2, 32, 6, 6, conv_1x1_stride},
    {"conv 7x7 stride 2", 2, 16, 12, 12, conv_7x7},
    {"conv dilated", 2, 16, 8, 8, conv_dilated},
    {"conv 5x5, odd channels", 2, 3, 7, 6, conv_5x5_odd},
    {"conv without padding, odd channels", 2, 7, 6, 6, conv_no_padding},
    {"conv in groups", 2, 4, 6, 6, conv_groups},
    {"conv depthwise", 2, 8, 6, 6, conv_depthwise},
    {"conv 64 to 64 (Winograd where there is one)", 2, 64, 8, 8, conv_64},
    {"batch norm, blocks", 4, 32, 5, 5, norm},
    {"batch norm, odd channels", 4, 5, 5, 5, norm},
    {"batch norm + relu, blocks", 4, 16, 5, 5, norm_relu},
    {"batch norm + relu, odd channels", 3, 7, 4, 4, norm_relu},
    {"batch norm of [N, C]", 6, 3, 2, 2, norm_flat},
    {"relu", 2, 16, 4, 4, relu},
    {"relu, odd channels", 2, 3, 5, 5, relu},
    {"sum of a tensor with itself", 2, 16, 4, 4, add_self},
    {"residual block, pre-activation", 3, 16, 6, 6, residual},
    {"residual with bias", 3, 16, 4, 4, residual_bias},
    {"residual block with relu behind", 3, 16, 6, 6, residual_relu},
    {"max pool, blocks", 2, 16, 6, 6, max_pool},
    {"max pool padded, odd channels", 2, 3, 7, 7, max_pool_padded},
    {"average pool", 2, 16, 6, 6, average_pool},
    {"average pool padded, odd channels", 2, 3, 7, 7, average_pool_padded},
    {"global average pool, blocks", 3, 32, 5, 5, global_pool},
    {"global average pool, odd channels", 3, 5, 4, 4, global_pool},
    {"linear", 4, 3, 4, 4, linear},
    {"linear without bias", 4, 16, 2, 2, linear_plain},
    {"dropout", 3, 5, 4, 4, dropout},
    {"dropout of [N, K]", 3, 4, 4, 4, dropout_flat},
    {"reshape to other rows", 4, 16, 2, 2, reshape},
};
enum { OPERATOR_CASES = sizeof operator_cases / sizeof *operator_cases };

/* image -> convolution with bias -> the operator -> flatten -> linear -> loss. A reshape that changes the number of rows
 * leaves its own labels. */
static inline neap_status build_case(const struct operator_case *c, float smoothing, neap_graph **graph) {
  neap_builder *b = neap_builder_create(c->name);
  const neap_tensor image = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){c->images, 3, c->height, c->width});
  neap_tensor x = neap_conv(b, image, (neap_conv_options){.filters = c->channels, .size = 3, .padding = 1, .bias = true});
  x = c->apply(b, x);
  const int64_t rows = c->apply == reshape ? c->images * c->channels * c->height * c->width / 16 : c->images;
  if (c->apply != reshape) x = neap_linear(b, neap_flatten(b, x), 5, true);
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, &rows);
  const neap_status status = neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, smoothing), graph);
  neap_builder_free(b);
  return status;
}

#endif
