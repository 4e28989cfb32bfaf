#include "weights/sparse.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "rewrite/rewrite.h"
#include "session/session_memory.h"
#include "weights/positions.h"

/* ---- The memory of sparse parameters ---- */

/* Lends a complete resident tensor of the graph of `main`. */
static neap_status lend(const struct neap_session *s, int32_t tensor, struct device_loan **loan) {
  struct sparse *sparse = s->sparse;
  *loan = &sparse->loans[sparse->loan_count];
  TRY(device_lend(&s->memory, session_place(s, tensor), tensor_bytes(s->main, tensor), *loan));
  sparse->loan_count++;
  return NEAP_OK;
}

static neap_status lend_layer(const struct neap_session *s, struct sparse_layer *l) {
  struct device_loan *loan;
  TRY(lend(s, l->offset_tensor, &loan));
  l->offset = loan->data;
  TRY(lend(s, l->positions_tensor, &loan));
  l->ends = s->sparse->by_index ? loan->data : NULL;
  l->bits = s->sparse->by_index ? NULL : loan->data;
  return NEAP_OK;
}

static neap_status lend_all(const struct neap_session *s) {
  struct sparse *sparse = s->sparse;
  struct device_loan *loan;
  for (int32_t k = 0; k < sparse->layer_count; k++) TRY(lend_layer(s, &sparse->layers[k]));
  for (int32_t p = 0; p < sparse->pool_count; p++) {
    TRY(lend(s, sparse->pools[p].tensor, &loan));
    sparse->pools[p].data = loan->data;
  }
  if (!sparse->by_index) return NEAP_OK;
  TRY(lend(s, sparse->indices_tensor, &loan));
  sparse->indices = loan->data;
  return NEAP_OK;
}

/* Returns all loans. `status`: of their use; returns the first failure. */
static neap_status sparse_close(const struct neap_session *s, bool changed, neap_status status) {
  struct sparse *sparse = s->sparse;
  while (sparse->loan_count > 0) {
    const neap_status back = device_give_back(&s->memory, &sparse->loans[--sparse->loan_count], changed);
    status = status != NEAP_OK ? status : back;
  }
  for (int32_t k = 0; k < sparse->layer_count; k++) {
    sparse->layers[k].offset = sparse->layers[k].ends = NULL;
    sparse->layers[k].bits = NULL;
  }
  for (int32_t p = 0; p < sparse->pool_count; p++) sparse->pools[p].data = NULL;
  sparse->indices = NULL;
  return status;
}

/* Lends the memory of all sparse parameters to the host, until sparse_close. */
static neap_status sparse_open(const struct neap_session *s) {
  const neap_status status = lend_all(s);
  return status != NEAP_OK ? sparse_close(s, false, status) : NEAP_OK;
}

/* ---- Rewiring ---- */

struct threshold {
  const struct sparse_pool *values;
  double least;
  int64_t largest; /* place of the value that stays in any case */
};

static double size_at(const struct sparse_pool *p, int64_t at) {
  return fabs(dtype_real(p->dtype, p->data, at));
}

static bool is_large(void *context, int64_t i, int64_t at) {
  const struct threshold *t = context;
  (void)i;
  return at == t->largest || size_at(t->values, at) >= t->least;
}

static int64_t drop_small(struct sparse *sparse, struct sparse_layer *l, int64_t has) {
  struct threshold t = {&sparse->pools[0], sparse->threshold, *l->offset};
  for (int64_t at = *l->offset; at < *l->offset + has; at++)
    if (size_at(t.values, at) > size_at(t.values, t.largest)) t.largest = at;
  return positions_drop(sparse, l, is_large, &t);
}

/* Draws `left` of `among` elements in one pass (selection sampling: Knuth, The Art of Computer Programming 2,
 * 3.4.2 S). */
struct draw {
  uint64_t seed, stream;
  int64_t left, among;
};

static bool is_drawn(void *context, int64_t i, int64_t at) {
  struct draw *d = context;
  uint32_t word[4];
  (void)at;
  random_philox(d->seed, d->stream, (uint64_t)i, word);
  const uint64_t wide = (uint64_t)word[0] << 21 | word[1] >> 11; /* 53 bits */
  const bool drawn = (double)wide * 0x1p-53 * (double)d->among-- < (double)d->left;
  d->left -= drawn;
  return drawn;
}

/* Distributes `dropped` new values over layers in proportion to their values. The rest from rounding, and
 * values without room in a layer, go to the first layers that have room. */
static void share_out(const struct sparse *sparse, const int64_t *has, int64_t dropped, int64_t *counts) {
  int64_t all = 0, left = dropped;
  for (int32_t k = 0; k < sparse->layer_count; k++) all += has[k];
  for (int32_t k = 0; k < sparse->layer_count; k++) {
    const int64_t room = sparse->layers[k].elements - has[k];
    const int64_t share = (int64_t)((double)has[k] / (double)all * (double)dropped);
    counts[k] = has[k] + (share < room ? share : room);
    left -= counts[k] - has[k];
  }
  for (int32_t k = 0; left > 0 && k < sparse->layer_count; k++) {
    const int64_t room = sparse->layers[k].elements - counts[k], given = left < room ? left : room;
    counts[k] += given;
    left -= given;
  }
}

neap_status neap_session_rewire(neap_session *s, double share, int64_t *moved) {
  static const double tolerance =
      0.1; /* deviation from the wanted number, as a share of it, that leaves the threshold unchanged */
  static const uint64_t apart = 0x52657769726531u; /* from what others draw */
  RETURN_IF(s == NULL || s->sparse->layer_count == 0, NEAP_INVALID_ARGUMENT,
            "rewiring: this session has no sparse parameters");
  RETURN_IF(!(share > 0 && share < 1), NEAP_INVALID_ARGUMENT,
            "rewiring: the share of all values must be between 0 and 1 (got %g)", share);
  RETURN_IF(s->micro_batch > 0, NEAP_INVALID_ARGUMENT,
            "rewiring: a step has begun; finish its micro-batches first");
  struct sparse *sparse = s->sparse;
  int64_t *has = sparse->has, *counts = sparse->counts, all = 0, dropped = 0;
  TRY(sparse_open(s));
  for (int32_t k = 0; k < sparse->layer_count; k++) {
    const int64_t before = positions_count(&sparse->layers[k]);
    has[k] = drop_small(sparse, &sparse->layers[k], before);
    all += before;
    dropped += before - has[k];
  }
  share_out(sparse, has, dropped, counts);
  positions_make_room(sparse, has, counts);
  for (int32_t k = 0; k < sparse->layer_count; k++) {
    struct sparse_layer *l = &sparse->layers[k];
    struct draw draw = {s->options.seed ^ apart, s->steps << 20 | (uint64_t)k, counts[k] - has[k],
                        l->elements - has[k]};
    positions_grow(sparse, l, has[k], counts[k], is_drawn, &draw);
  }
  TRY(sparse_close(s, true, NEAP_OK));
  const double wanted = share * (double)all;
  if ((double)dropped < (1 - tolerance) * wanted) sparse->threshold *= 2;
  if ((double)dropped > (1 + tolerance) * wanted) sparse->threshold /= 2;
  if (moved != NULL) *moved = dropped;
  return NEAP_OK;
}

/* ---- Sparse parameters as dense tensors ---- */

/* Allocates a dense tensor of the layer in its memory format. */
static neap_status allocate_dense(const struct neap_session *s, const struct sparse_layer *l,
                                  neap_dtype dtype, struct tensor *tensor, unsigned char **data) {
  *tensor = s->main->graph->tensors.data[l->dense];
  tensor->dtype = dtype;
  *data = calloc((size_t)l->elements, dtype_bytes(dtype, 1));
  RETURN_IF_NULL(*data);
  return NEAP_OK;
}

neap_status sparse_values(const struct neap_session *s, int32_t layer, int64_t *count) {
  TRY(sparse_open(s));
  *count = positions_count(&s->sparse->layers[layer]);
  return sparse_close(s, false, NEAP_OK);
}

/* Copies the values of a layer between a pool and their elements. */
static neap_status copy_values(const struct neap_session *s, int32_t layer, int32_t pool, bool to_pool,
                               unsigned char *dense) {
  const struct sparse_pool *p = &s->sparse->pools[pool];
  const size_t bytes = dtype_bytes(p->dtype, 1);
  TRY(sparse_open(s));
  for (struct position v = positions_begin(s->sparse, &s->sparse->layers[layer]); positions_next(&v);) {
    unsigned char *element = dense + (size_t)v.element * bytes, *value = sparse_element(p, v.at);
    memcpy(to_pool ? value : element, to_pool ? element : value, bytes);
  }
  return sparse_close(s, to_pool, NEAP_OK);
}

/* Converts a dense tensor between its memory format and f32. */
static neap_status to_plain(const struct neap_session *s, const struct sparse_layer *l,
                            const struct tensor *tensor, const unsigned char *dense, float *plain) {
  return s->main->backend->export_variable(s->main->state, tensor, s->main->formats[l->dense], dense, plain);
}

static neap_status from_plain(const struct neap_session *s, const struct sparse_layer *l,
                              const struct tensor *tensor, const float *plain, unsigned char *dense) {
  return s->main->backend->import_variable(s->main->state, tensor, s->main->formats[l->dense], plain, dense);
}

neap_status sparse_read(const struct neap_session *s, int32_t layer, int32_t pool, float *data) {
  const struct sparse_layer *l = &s->sparse->layers[layer];
  struct tensor tensor;
  unsigned char *dense;
  TRY(allocate_dense(s, l, s->sparse->pools[pool].dtype, &tensor, &dense));
  neap_status status = copy_values(s, layer, pool, false, dense);
  if (status == NEAP_OK) status = to_plain(s, l, &tensor, dense, data);
  free(dense);
  return status;
}

neap_status sparse_write(struct neap_session *s, int32_t layer, int32_t pool, const float *data) {
  const struct sparse_layer *l = &s->sparse->layers[layer];
  struct tensor tensor;
  unsigned char *dense;
  TRY(allocate_dense(s, l, s->sparse->pools[pool].dtype, &tensor, &dense));
  neap_status status = from_plain(s, l, &tensor, data, dense);
  if (status == NEAP_OK) status = copy_values(s, layer, pool, true, dense);
  free(dense);
  return status;
}

static neap_status mark_positions(const struct neap_session *s, const struct sparse_layer *l,
                                  neap_dtype dtype, unsigned char *dense) {
  TRY(sparse_open(s));
  for (struct position v = positions_begin(s->sparse, l); positions_next(&v);)
    dtype_set_real(dtype, dense, v.element, 1);
  return sparse_close(s, false, NEAP_OK);
}

neap_status sparse_read_positions(const struct neap_session *s, int32_t layer, float *data) {
  const struct sparse_layer *l = &s->sparse->layers[layer];
  struct tensor tensor;
  unsigned char *dense;
  TRY(allocate_dense(s, l, s->sparse->pools[0].dtype, &tensor, &dense));
  neap_status status = mark_positions(s, l, tensor.dtype, dense);
  if (status == NEAP_OK) status = to_plain(s, l, &tensor, dense, data);
  free(dense);
  return status;
}

/* Positions given as a dense tensor that is not 0 there. */
struct given_positions {
  const unsigned char *dense;
  neap_dtype dtype;
};

static bool is_given(void *context, int64_t i, int64_t at) {
  const struct given_positions *g = context;
  (void)at;
  return dtype_real(g->dtype, g->dense, i) != 0;
}

static neap_status set_positions(struct sparse *sparse, int32_t layer, struct given_positions *given) {
  struct sparse_layer *l = &sparse->layers[layer];
  int64_t all = 0, count = 0;
  for (int64_t i = 0; i < l->elements; i++) count += is_given(given, i, -1);
  for (int32_t k = 0; k < sparse->layer_count; k++) {
    sparse->has[k] = sparse->counts[k] = positions_count(&sparse->layers[k]);
    all += k == layer ? count : sparse->counts[k];
  }
  RETURN_IF(all > sparse->capacity, NEAP_INVALID_ARGUMENT,
            "'%s': with %lld values the total would be %lld; the density leaves room for %lld", l->name,
            (long long)count, (long long)all, (long long)sparse->capacity);
  sparse->has[layer] = positions_drop(sparse, l, is_given, given);
  sparse->counts[layer] = count;
  positions_make_room(sparse, sparse->has, sparse->counts);
  positions_grow(sparse, l, sparse->has[layer], count, is_given, given);
  return NEAP_OK;
}

neap_status sparse_write_positions(struct neap_session *s, int32_t layer, const float *data) {
  const struct sparse_layer *l = &s->sparse->layers[layer];
  struct tensor tensor;
  unsigned char *dense;
  TRY(allocate_dense(s, l, s->sparse->pools[0].dtype, &tensor, &dense));
  neap_status status = from_plain(s, l, &tensor, data, dense);
  if (status == NEAP_OK) status = sparse_open(s);
  if (status == NEAP_OK) {
    status = set_positions(s->sparse, layer, &(struct given_positions){dense, tensor.dtype});
    status = sparse_close(s, status == NEAP_OK, status);
  }
  free(dense);
  return status;
}

neap_status sparse_clear(struct neap_session *s) {
  for (int32_t k = 0; k < s->sparse->layer_count; k++) {
    const struct sparse_layer *l = &s->sparse->layers[k];
    TRY(device_fill(&s->memory, session_place(s, l->offset_tensor), tensor_bytes(s->main, l->offset_tensor)));
    TRY(device_fill(&s->memory, session_place(s, l->positions_tensor),
                    tensor_bytes(s->main, l->positions_tensor)));
  }
  return NEAP_OK;
}

void sparse_first_positions(const struct neap_session *s, int32_t layer, float *data) {
  static const uint64_t apart = 0x506F736974696Fu; /* from what others draw */
  const struct sparse_layer *l = &s->sparse->layers[layer];
  struct draw draw = {s->options.seed ^ apart, (uint64_t)layer,
                      sparse_count(l->elements, s->options.sparse_density), l->elements};
  for (int64_t i = 0; i < l->elements; i++) data[i] = is_drawn(&draw, i, -1);
}

neap_status sparse_draw_positions(struct neap_session *s, float *data) {
  TRY(sparse_clear(s));
  for (int32_t k = 0; k < s->sparse->layer_count; k++) {
    sparse_first_positions(s, k, data);
    TRY(sparse_write_positions(s, k, data));
  }
  return NEAP_OK;
}

/* Finds the largest elements by halving the range of bit patterns, whose order is that of sizes. */
void sparse_largest(int64_t elements, int64_t count, float *data) {
  uint32_t *size = (void *)data, least = 0, above = UINT32_MAX; /* `least` is reached by `count` or more */
  for (int64_t i = 0; i < elements; i++) size[i] &= INT32_MAX;
  while (above - least > 1) {
    const uint32_t middle = least + (above - least) / 2;
    int64_t reached = 0;
    for (int64_t i = 0; i < elements; i++) reached += size[i] >= middle;
    if (reached >= count)
      least = middle;
    else
      above = middle;
  }
  int64_t ties = count;
  for (int64_t i = 0; i < elements; i++) ties -= size[i] > least;
  for (int64_t i = 0; i < elements; i++) {
    const bool tie = size[i] == least && ties > 0;
    ties -= tie;
    data[i] = tie || size[i] > least;
  }
}

/* ---- Finding sparse parameters ---- */

static neap_status add_pools(struct neap_session *s, int32_t values) {
  const struct neap_graph *graph = s->main->graph;
  const struct tensor *pool = &graph->tensors.data[values];
  s->sparse->capacity = pool->elements;
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    const bool state = tensor->role == NEAP_ROLE_STATE && tensor->state_of != NULL &&
                       strcmp(tensor->state_of, pool->name) == 0;
    if (tensor->view_of >= 0 || (t != values && !state)) continue;
    RETURN_IF(s->sparse->pool_count == SPARSE_POOLS, NEAP_INTERNAL, "sparse parameters have too many states");
    s->sparse->pools[s->sparse->pool_count++] =
        (struct sparse_pool){.suffix = state ? tensor->name + strlen(pool->name) : "",
                             .kind = state ? NEAP_VARIABLE_STATE : NEAP_VARIABLE_PARAMETER,
                             .dtype = tensor->dtype,
                             .sum = tensor->sum,
                             .tensor = t};
  }
  return NEAP_OK;
}

static neap_status allocate_sparse(struct neap_session *s) {
  static const double first_threshold = 1e-3; /* Mostafa and Wang 2019 */
  const struct neap_graph *graph = s->main->graph;
  size_t most = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) most += graph->nodes.data[v].op == OP_DENSIFY;
  struct sparse *sparse = s->sparse = region_alloc(&s->region, 1, sizeof *s->sparse);
  RETURN_IF_NULL(sparse);
  sparse->threshold = first_threshold;
  sparse->layers = region_alloc(&s->region, most, sizeof *sparse->layers);
  sparse->has = region_alloc(&s->region, most, sizeof *sparse->has);
  sparse->counts = region_alloc(&s->region, most, sizeof *sparse->counts);
  sparse->loans = region_alloc(&s->region, 2 * most + SPARSE_POOLS + 1, sizeof *sparse->loans);
  RETURN_IF(!sparse->layers || !sparse->has || !sparse->counts || !sparse->loans, NEAP_OUT_OF_MEMORY,
            "session: out of memory");
  return NEAP_OK;
}

neap_status sparse_find(struct neap_session *s) {
  const struct neap_graph *graph = s->main->graph;
  TRY(allocate_sparse(s));
  struct sparse *sparse = s->sparse;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op != OP_DENSIFY) continue;
    if (sparse->layer_count == 0) TRY(add_pools(s, node->inputs[DENSIFY_VALUES]));
    const struct tensor *dense = &graph->tensors.data[node->outputs[0]];
    const char *indices_name = region_format(&s->region, "%s.indices", dense->name);
    RETURN_IF_NULL(indices_name);
    sparse->by_index = node->inputs[DENSIFY_INDICES] != NO_TENSOR;
    sparse->indices_tensor = node->inputs[DENSIFY_INDICES];
    sparse->layers[sparse->layer_count++] =
        (struct sparse_layer){.name = dense->name,
                              .indices_name = indices_name,
                              .dense = node->outputs[0],
                              .elements = dense->elements,
                              .offset_tensor = node->inputs[DENSIFY_OFFSET],
                              .positions_tensor = node->inputs[DENSIFY_POSITIONS]};
  }
  return NEAP_OK;
}
