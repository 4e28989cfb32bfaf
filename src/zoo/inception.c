/* Networks of inception modules: GoogLeNet (Szegedy et al. 2015), with batch norm (Ioffe & Szegedy 2015) or
 * with local response normalisation, and Inception-v3 (Szegedy et al. 2016), without auxiliary heads. */
#include "zoo/zoo.h"

/* Convolution, batch norm, ReLU. */
static neap_tensor unit(neap_builder *b, neap_tensor x, neap_conv_options options) {
  x = neap_batch_norm(b, neap_conv(b, x, options), (neap_batch_norm_options){.epsilon = 1e-3f});
  return neap_relu(b, x);
}

/* ---- GoogLeNet ---- */

static const neap_pool_options halving = {.size = 3, .stride = 2, .ceil = true},
                               same = {.size = 3, .stride = 1, .padding = 1};

/* A layer as the variant has it: with batch norm, or with a bias alone. */
static neap_tensor layer(neap_builder *b, neap_tensor x, int64_t filters, int64_t size, int64_t stride,
                         bool batch_norm) {
  const neap_conv_options options = {
      .filters = filters, .size = size, .stride = stride, .padding = size / 2, .bias = !batch_norm};
  return batch_norm ? unit(b, x, options) : neap_relu(b, neap_conv(b, x, options));
}

struct module {
  const char *scope;
  int64_t direct, reduce3, size3, reduce5, size5, pooled; /* filters */
};

/* With batch norm the third branch is 3x3, as its published weights are, else 5x5. */
static neap_tensor module(neap_builder *b, neap_tensor x, const struct module *m, bool batch_norm) {
  neap_scope(b, m->scope);
  neap_tensor branches[4] = {layer(b, x, m->direct, 1, 1, batch_norm),
                             layer(b, x, m->reduce3, 1, 1, batch_norm)};
  branches[1] = layer(b, branches[1], m->size3, 3, 1, batch_norm);
  branches[2] = layer(b, x, m->reduce5, 1, 1, batch_norm);
  branches[2] = layer(b, branches[2], m->size5, batch_norm ? 3 : 5, 1, batch_norm);
  branches[3] = layer(b, neap_max_pool(b, x, same), m->pooled, 1, 1, batch_norm);
  return neap_concat(b, branches, 4, 1);
}

static neap_tensor modules(neap_builder *b, neap_tensor x, const struct module *m, int count,
                           bool batch_norm) {
  for (int i = 0; i < count; i++) x = module(b, x, &m[i], batch_norm);
  return x;
}

static neap_tensor googlenet(neap_builder *b, neap_tensor x, const struct blueprint *p, bool batch_norm) {
  static const struct module third[] = {{"inception3a", 64, 96, 128, 16, 32, 32},
                                        {"inception3b", 128, 128, 192, 32, 96, 64}},
                             fourth[] = {{"inception4a", 192, 96, 208, 16, 48, 64},
                                         {"inception4b", 160, 112, 224, 24, 64, 64},
                                         {"inception4c", 128, 128, 256, 24, 64, 64},
                                         {"inception4d", 112, 144, 288, 32, 64, 64},
                                         {"inception4e", 256, 160, 320, 32, 128, 128}},
                             fifth[] = {{"inception5a", 256, 160, 320, 32, 128, 128},
                                        {"inception5b", 384, 192, 384, 48, 128, 128}};
  const neap_response_norm_options usual = {0};
  neap_scope(b, "stem");
  x = neap_max_pool(b, layer(b, x, 64, 7, 2, batch_norm), halving);
  if (!batch_norm) x = neap_local_response_norm(b, x, usual);
  x = layer(b, layer(b, x, 64, 1, 1, batch_norm), 192, 3, 1, batch_norm);
  if (!batch_norm) x = neap_local_response_norm(b, x, usual);
  x = modules(b, neap_max_pool(b, x, halving), third, 2, batch_norm);
  x = modules(b, neap_max_pool(b, x, halving), fourth, 5, batch_norm);
  x = modules(b, neap_max_pool(b, x, halving), fifth, 2, batch_norm);
  neap_scope(b, "head");
  x = neap_dropout(b, neap_global_average_pool(b, x), batch_norm ? 0.2f : 0.4f);
  return neap_linear(b, x, p->classes, true);
}

neap_tensor build_googlenet(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  return googlenet(b, x, p, true);
}

neap_tensor build_googlenet_lrn(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  return googlenet(b, x, p, false);
}

/* ---- Inception-v3 ---- */

static neap_tensor square(neap_builder *b, neap_tensor x, int64_t filters, int64_t size, int64_t stride,
                          int64_t padding) {
  return unit(b, x,
              (neap_conv_options){.filters = filters, .size = size, .stride = stride, .padding = padding});
}

/* 1 x length and length x 1, the image as large as before. */
static neap_tensor row(neap_builder *b, neap_tensor x, int64_t filters, int64_t length) {
  return unit(
      b, x,
      (neap_conv_options){
          .filters = filters, .kernel_height = 1, .kernel_width = length, .padding_width = length / 2});
}

static neap_tensor column(neap_builder *b, neap_tensor x, int64_t filters, int64_t length) {
  return unit(
      b, x,
      (neap_conv_options){
          .filters = filters, .kernel_height = length, .kernel_width = 1, .padding_height = length / 2});
}

/* The branch that every module has: an average, padding and all, then 1x1. */
static neap_tensor pooled(neap_builder *b, neap_tensor x, int64_t filters) {
  const neap_pool_options options = {.size = 3, .stride = 1, .padding = 1, .count_padding = true};
  return square(b, neap_average_pool(b, x, options), filters, 1, 1, 0);
}

static neap_tensor halved(neap_builder *b, neap_tensor x) {
  return neap_max_pool(b, x, (neap_pool_options){.size = 3, .stride = 2});
}

/* Figure 5 of the paper: 5x5 as it is and as two of 3x3. */
static neap_tensor module_of_squares(neap_builder *b, neap_tensor x, const char *scope, int64_t pool) {
  neap_scope(b, scope);
  neap_tensor branches[] = {square(b, x, 64, 1, 1, 0), square(b, x, 48, 1, 1, 0), square(b, x, 64, 1, 1, 0),
                            pooled(b, x, pool)};
  branches[1] = square(b, branches[1], 64, 5, 1, 2);
  branches[2] = square(b, square(b, branches[2], 96, 3, 1, 1), 96, 3, 1, 1);
  return neap_concat(b, branches, 4, 1);
}

/* Figure 6: 7x7 as 1x7 and 7x1, once and twice. */
static neap_tensor module_of_lines(neap_builder *b, neap_tensor x, const char *scope, int64_t width) {
  neap_scope(b, scope);
  neap_tensor branches[] = {square(b, x, 192, 1, 1, 0), square(b, x, width, 1, 1, 0),
                            square(b, x, width, 1, 1, 0), pooled(b, x, 192)};
  branches[1] = column(b, row(b, branches[1], width, 7), 192, 7);
  branches[2] = row(b, column(b, branches[2], width, 7), width, 7);
  branches[2] = row(b, column(b, branches[2], width, 7), 192, 7);
  return neap_concat(b, branches, 4, 1);
}

/* Figure 7: the last branches fan out. */
static neap_tensor module_of_fans(neap_builder *b, neap_tensor x, const char *scope) {
  neap_scope(b, scope);
  const neap_tensor once = square(b, x, 384, 1, 1, 0),
                    twice = square(b, square(b, x, 448, 1, 1, 0), 384, 3, 1, 1),
                    branches[] = {square(b, x, 320, 1, 1, 0), row(b, once, 384, 3),
                                  column(b, once, 384, 3),    row(b, twice, 384, 3),
                                  column(b, twice, 384, 3),   pooled(b, x, 192)};
  return neap_concat(b, branches, 6, 1);
}

/* Figure 10, at both places where the image is halved. */
static neap_tensor first_reduction(neap_builder *b, neap_tensor x) {
  neap_scope(b, "reduction1");
  const neap_tensor inner = square(b, square(b, x, 64, 1, 1, 0), 96, 3, 1, 1),
                    branches[] = {square(b, x, 384, 3, 2, 0), square(b, inner, 96, 3, 2, 0), halved(b, x)};
  return neap_concat(b, branches, 3, 1);
}

static neap_tensor second_reduction(neap_builder *b, neap_tensor x) {
  neap_scope(b, "reduction2");
  const neap_tensor left = square(b, x, 192, 1, 1, 0),
                    right = column(b, row(b, square(b, x, 192, 1, 1, 0), 192, 7), 192, 7),
                    branches[] = {square(b, left, 320, 3, 2, 0), square(b, right, 192, 3, 2, 0),
                                  halved(b, x)};
  return neap_concat(b, branches, 3, 1);
}

neap_tensor build_inception_v3(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  neap_scope(b, "stem");
  x = square(b, square(b, square(b, x, 32, 3, 2, 0), 32, 3, 1, 0), 64, 3, 1, 1);
  x = halved(b, square(b, square(b, halved(b, x), 80, 1, 1, 0), 192, 3, 1, 0));
  x = module_of_squares(b, x, "squares1", 32);
  x = module_of_squares(b, x, "squares2", 64);
  x = first_reduction(b, module_of_squares(b, x, "squares3", 64));
  x = module_of_lines(b, x, "lines1", 128);
  x = module_of_lines(b, x, "lines2", 160);
  x = module_of_lines(b, x, "lines3", 160);
  x = second_reduction(b, module_of_lines(b, x, "lines4", 192));
  x = module_of_fans(b, module_of_fans(b, x, "fans1"), "fans2");
  neap_scope(b, "head");
  x = neap_dropout(b, neap_global_average_pool(b, x), 0.5f);
  return neap_linear(b, x, p->classes, true);
}
