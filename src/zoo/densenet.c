/* Densely connected networks with bottlenecks and compression (Huang et al. 2017). */
#include "zoo/zoo.h"

enum { BLOCKS = 4, MOST_LAYERS = 48 };

static const struct depth {
  int64_t depth, layers[BLOCKS], growth;
} depths[] = {
    {121, {6, 12, 24, 16}, 32},
    {161, {6, 12, 36, 24}, 48},
    {169, {6, 12, 32, 32}, 32},
    {201, {6, 12, MOST_LAYERS, 32}, 32},
};

static const struct depth *find_depth(int64_t depth) {
  for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
    if (depths[i].depth == depth) return &depths[i];
  return NULL;
}

neap_status check_densenet(const struct blueprint *p) {
  RETURN_IF(find_depth(p->numbers[0]) == NULL, NEAP_INVALID_ARGUMENT,
            "densenetN: N is 121, 161, 169 or 201, not %lld", (long long)p->numbers[0]);
  return NEAP_OK;
}

static neap_tensor active(neap_builder *b, neap_tensor x) { return neap_relu(b, normalise(b, x)); }

/* Each layer reads all that come before it in the block. The concatenations are values of their own, made of
 * the layers' outputs: a plan may drop each of them and put it together again (Pleiss et al. 2017). */
static neap_tensor dense_block(neap_builder *b, neap_tensor x, int64_t stage, int64_t layers,
                               int64_t growth) {
  neap_tensor parts[MOST_LAYERS + 1] = {x};
  for (int i = 1; i <= layers; i++) {
    name_block(b, stage, i);
    const neap_tensor y = convolve(b, active(b, x), 4 * growth, 1, 1);
    parts[i] = convolve(b, active(b, y), growth, 3, 1);
    x = neap_concat(b, parts, i + 1, 1);
  }
  return x;
}

neap_tensor build_densenet(neap_builder *b, neap_tensor x, const struct blueprint *p) {
  const struct depth *d = find_depth(p->numbers[0]);
  int64_t channels = 2 * d->growth;
  neap_scope(b, "stem");
  x = active(b, convolve(b, x, channels, 7, 2));
  x = neap_max_pool(b, x, (neap_pool_options){.size = 3, .stride = 2, .padding = 1});
  for (int stage = 0; stage < BLOCKS; stage++) {
    x = dense_block(b, x, stage + 1, d->layers[stage], d->growth);
    channels += d->layers[stage] * d->growth;
    if (stage + 1 == BLOCKS) break;
    name_block(b, stage + 1, d->layers[stage] + 1); /* the transition halves the channels */
    x = convolve(b, active(b, x), channels /= 2, 1, 1);
    x = neap_average_pool(b, x, (neap_pool_options){.size = 2});
  }
  neap_scope(b, "head");
  return neap_linear(b, neap_global_average_pool(b, active(b, x)), p->classes, true);
}
