/* Every instruction set that this processor has gives what the plainest one gives, for any number of lanes
 * and any rest that vectors leave. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/random.h"
#include "kernel/cpu/dispatch.h"
#include "op/op.h"
#include "testing.h"

enum { ELEMENTS = 1 << 16, TABLES = 8 };

/* What a kernel is given and what it makes. */
struct buffers {
  _Alignas(64) float x[ELEMENTS], y[ELEMENTS];
  _Alignas(64) uint8_t bytes[ELEMENTS];
  _Alignas(64) unsigned char workspace[8192];
  int32_t labels[ELEMENTS], correct;
  float loss;
};

static struct buffers *make(void) {
  struct buffers *b = aligned_alloc(64, sizeof *b);
  assert_non_null(b);
  memset(b, 0xFF, sizeof *b);
  uint32_t state = 12345;
  for (int i = 0; i < ELEMENTS; i++) {
    state = state * 1664525u + 1013904223u;
    b->x[i] = (float)(state >> 8) * 0x1p-23f - 1;
    b->labels[i] = (int32_t)(state >> 20 & 31) - 1;
  }
  return b;
}

typedef void run_kernel(const struct cpu_kernels *k, struct buffers *b, int64_t size);

static struct stored f32(float *data) { return (struct stored){NEAP_F32, data}; }

static void run_relu_mask(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->relu_mask(size, b->x, b->y, b->bytes);
}

static void run_relu_mask_backward(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  for (int i = 0; i < ELEMENTS; i++) b->bytes[i] = (uint8_t)(i * 37 + i / 8);
  k->relu_mask_backward(size, b->bytes, b->x, b->y);
}

/* A third of the elements of a tensor, in both forms of positions; and which they are. */
struct sparse {
  int64_t count, values, elements[ELEMENTS / 8];
  uint8_t bits[ELEMENTS / 64];
  int32_t ends[1];
  uint16_t indices[ELEMENTS / 8];
};

static void make_sparse(struct sparse *s, int64_t size) {
  *s = (struct sparse){.count = size * 37 + 5};
  for (int64_t i = 0; i < s->count; i++) {
    if (i * 7919 % 13 > 3) continue;
    s->bits[i / 8] |= (uint8_t)(1 << i % 8);
    s->indices[s->values] = (uint16_t)i;
    s->elements[s->values++] = i;
  }
  s->ends[0] = (int32_t)s->values;
}

/* Both forms give the same, too. */
static void run_sparse(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  static struct sparse s;
  make_sparse(&s, size);
  const struct positions forms[] = {{.bits = s.bits}, {.ends = s.ends, .indices = s.indices}};
  const struct random_key key = {3, 5};
  for (int form = 0; form < 2; form++) {
    float *y = b->y + form * (ELEMENTS / 2), *sums = y + ELEMENTS / 8;
    uint16_t *half = (void *)(y + ELEMENTS / 4);
    int64_t elements[ELEMENTS / 8];
    k->densify(NEAP_F32, s.count, forms[form], b->x, y);
    memset(sums, 0, ELEMENTS / 8 * sizeof *sums);
    k->accumulate_sparse(NEAP_F32, NEAP_F32, s.count, forms[form], b->x, 0.5f, sums, key);
    memset(half, 0, ELEMENTS / 8 * sizeof *half);
    k->accumulate_sparse(NEAP_BF16, NEAP_F32, s.count, forms[form], b->x, 1, half, key);
    k->sparse_elements(s.count, forms[form], 3, s.values, elements);
    assert_memory_equal(elements, s.elements + 3, (size_t)(s.values - 3) * sizeof *elements);
    assert_int_equal(elements[s.values - 1], s.count); /* there are no such values */
  }
  assert_memory_equal(b->y, b->y + ELEMENTS / 2, ELEMENTS / 8 * 5 / 2 * sizeof *b->y);
}

/* Of some elements as of all. */
static void run_narrow_randomly_at(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  enum { ALL = ELEMENTS / 8 };
  static struct sparse s;
  static uint16_t all[ALL], some[ALL];
  static float values[ALL];
  make_sparse(&s, size);
  k->narrow_randomly(NEAP_F16, s.count, b->x, all, (struct random_key){7, 9}, 0);
  for (int64_t i = 0; i < s.values; i++) values[i] = b->x[s.elements[i]];
  k->narrow_randomly_at(NEAP_F16, s.values, values, some, (struct random_key){7, 9}, s.elements);
  for (int64_t i = 0; i < s.values; i++) assert_int_equal(some[i], all[s.elements[i]]);
  memcpy(b->bytes, some, (size_t)s.values * sizeof *some);
}

static void run_pixels(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  static const float mean[] = {100, 3.5f, 255}, deviation[] = {50, 1, 77};
  static const int32_t windows[] = {0, 5, 0, 1000, 1, 4, 2, 9, 3, 3, 0, 5};
  static uint8_t x[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++) x[i] = (uint8_t)(i * 37 + i / 8);
  static const neap_dtype types[] = {NEAP_F32, NEAP_BF16, NEAP_F16};
  for (int i = 0; i < 3; i++)
    k->pixels((struct activation){3, 3, 5, size, 1, types[i]}, x, windows, mean, deviation,
              b->y + i * (ELEMENTS / 4));
}

/* Blocks of either type, the last of which has fewer numbers, and what they become. */
static void run_compress(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  const int64_t count = size * 37 + 5;
  for (int i = 0; i < 2; i++) {
    const neap_dtype dtype = i == 0 ? NEAP_C8 : NEAP_C4;
    uint8_t *blocks = b->bytes + i * (ELEMENTS / 2);
    k->compress(dtype, count, (struct random_key){7, 9}, f32(b->x), blocks);
    k->dequantise(dtype, count, blocks, f32(b->y + i * (ELEMENTS / 2)));
  }
}

/* `size` lanes in these. */
static struct activation shape(int64_t size, int64_t height, int64_t width) {
  return (struct activation){2, size, height, width, size, NEAP_F32};
}

static void run_crop(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->crop(shape(size, 7, 9), shape(size, 4, 5), 2, 3, b->x, b->y);
}

static void run_crop_backward(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->crop_backward(shape(size, 7, 9), shape(size, 4, 5), 2, 3, b->x, b->x + ELEMENTS / 2, b->y);
}

static void run_resize(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->resize(shape(size, 4, 3), shape(size, 9, 7), false, b->x, b->y, b->workspace);
}

static void run_resize_backward(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->resize_backward(shape(size, 4, 3), shape(size, 9, 7), true, b->x, b->y, b->workspace);
}

static void run_adaptive_pool(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->adaptive_average_pool(shape(size, 7, 8), shape(size, 3, 3), b->x, b->y);
}

static void run_adaptive_pool_backward(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->adaptive_average_pool_backward(shape(size, 7, 8), shape(size, 3, 3), b->x, b->y);
}

static void run_loss(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  for (int i = 0; i < ELEMENTS; i++) b->x[i] *= 20;
  k->softmax_cross_entropy(
      (struct labelled){.rows = ELEMENTS / size, .classes = size, .ignored = 3, .smoothing = 0.1f}, b->x,
      b->labels, &b->loss, &b->correct, (struct loss_part *)(void *)b->workspace);
}

static void run_loss_backward(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  for (int i = 0; i < ELEMENTS; i++) b->x[i] *= 200; /* exponentials down to nothing */
  k->softmax_cross_entropy_backward(
      (struct labelled){.rows = ELEMENTS / size, .classes = size, .ignored = -1}, b->x, b->labels, NULL,
      b->y);
}

/* Every operator of one tensor, forward and back, on numbers around 0 and, where it needs them so, above 0.
 */
#define UNARY(NAME, id, ...)                                                                                 \
  static void run_##id(const struct cpu_kernels *k, struct buffers *b, int64_t size) {                       \
    for (int i = 0; i < ELEMENTS; i++) b->x[i] = fabsf(b->x[i]) * 4 + 0.25f;                                 \
    k->id(size * 9, (struct scalars){0.5f, 1.5f}, f32(b->x), f32(b->y));                                     \
    for (int i = 0; i < ELEMENTS; i++) b->x[i] = b->x[i] * 2 - 4;                                            \
    if (OP_##NAME != OP_LOG && OP_##NAME != OP_SQRT && OP_##NAME != OP_POWER)                                \
      k->id(size * 9, (struct scalars){0.5f, 1.5f}, f32(b->x), f32(b->y + 2000));                            \
  }                                                                                                          \
  static void run_##id##_backward(const struct cpu_kernels *k, struct buffers *b, int64_t size) {            \
    for (int i = 0; i < ELEMENTS; i++) b->x[i] = fabsf(b->x[i]) * 4 + 0.25f;                                 \
    k->id##_backward(size * 9, (struct scalars){0.5f, 1.5f}, f32(b->x), f32(b->x + ELEMENTS / 2),            \
                     f32(b->y));                                                                             \
  }
#include "op/elementwise_list.h"

#define GATED(NAME, id, ...)                                                                                 \
  static void run_##id(const struct cpu_kernels *k, struct buffers *b, int64_t size) {                       \
    k->id(9, size, b->x, b->y);                                                                              \
    k->id##_backward(9, size, b->x, b->x + ELEMENTS / 2, b->y + 2000);                                       \
  }
#include "op/gated_list.h"

static void run_sum(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->sum((struct sum_axes){3, {5, size, 7}, 2}, 0.5f, b->x, b->y);
  k->sum((struct sum_axes){3, {5, size, 7}, 5}, 0.5f, b->x, b->y + 2000);
  k->sum((struct sum_axes){3, {5, size, 7}, 7}, 0.5f, b->x, b->y + 4000);
}

static void run_take(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  static const int64_t elements[] = {4, -1, 0, 4, 2, 2, -1};
  k->take((struct taken){3, 5, 7, size}, elements, 0.5f, b->x, b->y);
}

static void run_take_backward(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  static const int64_t elements[] = {4, -1, 0, 4, 2, 2, -1};
  k->take_backward((struct taken){3, 5, 7, size}, elements, b->x, b->y);
}

static void run_softmax(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->softmax(3, size, 1, b->x, b->y);
  k->softmax(2, 5, size, b->x, b->y + 2000);
  k->softmax_backward(3, size, 1, b->y, b->x, b->y + 4000);
}

static void run_row_norm(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  const struct row_norm layer = {6, size, 1, 1, 1e-5f, true, NEAP_F32},
                        group = {6, 3 * size, 2, size, 1e-5f, true, NEAP_F32};
  k->row_norm(layer, b->x, b->x + 3000, b->x + 4000, b->y, b->y + 2000, b->y + 2100);
  k->row_norm(group, b->x, b->x + 3000, b->x + 4000, b->y + 3000, b->y + 6000, b->y + 6100);
}

/* Heads of `size` channels, for kernels of four lengths: one size for each tile. */
static void run_sequence_conv(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  for (int i = 0; i < ELEMENTS; i++) b->x[i] /= 4; /* so that sums of hundreds of products are about 1 */
  for (int dynamic = 0; dynamic < 2; dynamic++)
    for (int i = 0; i < 4; i++) {
      const struct sequence_conv s = {1, 7, 7, 2 * size, 2, (int64_t[]){1, 2, 5, 8}[i], i, dynamic};
      float *y = b->y + (2 * i + dynamic) * 8000;
      k->sequence_conv(s, b->x, b->x + 5000, y);
      k->sequence_conv_backward(s, b->x, b->x + 5000, b->x + 6000, y + 2000, y + 4000, b->workspace);
    }
}

/* A factor of a block whose diagonal is large, and systems with it, of as many rows and columns. */
static void run_triangular(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  const int64_t n = size < TRIANGULAR_BLOCK ? size : TRIANGULAR_BLOCK;
  float *l = b->y, *x = b->y + 8192;
  memcpy(l, b->x, 8192 * sizeof *l);
  for (int64_t i = 0; i < n; i++) l[i * 65 + i] = 80;
  k->cholesky_block(n, 65, b->x + 5000, l);
  for (int turned = 0; turned < 4; turned++, x += 12000) {
    const struct triangular_block t = {n, size, 65, turned & 1, turned & 2 ? 1 : size, turned & 2 ? n : 1};
    memcpy(x, b->x, 12000 * sizeof *x);
    k->triangular_block(&t, l, turned & 1 ? NULL : b->x + 30000, x);
  }
}

static void run_broadcast(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->divide_broadcast((struct strides){2, {9, size}, {size, 1}, {1, 0}}, b->x, b->x + 7000, b->y);
  k->subtract_broadcast((struct strides){2, {9, size}, {0, 1}, {size, 1}}, b->x, b->x + 7000, b->y + 2000);
  k->strided((struct strides){2, {size, 9}, {1, size}, {9, 1}}, 1, b->x, b->y + 4000);
}

static void run_lstm(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  float *gates = b->y, *before = b->y + 8000, *c = b->y + 10000, *y = b->y + 12000;
  for (int i = 0; i < ELEMENTS; i++) b->y[i] = b->x[i];
  for (int i = 0; i < 8000; i++) gates[i] *= 6;
  k->lstm_cell(3, size, gates, c, y);
  k->lstm_state(3, size, gates, before, c);
  k->lstm_cell_backward(3, size, gates, before, c, b->x, b->y + 14000, b->y + 16000);
}

static void run_gru(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  float *gates = b->y, *before = b->y + 8000, *dh = b->y + 10000;
  for (int i = 0; i < ELEMENTS; i++) b->y[i] = b->x[i];
  for (int i = 0; i < ELEMENTS / 2; i++) b->x[i] *= 6;
  k->gru_cell(3, size, b->x, b->x + 4000, b->x + 40000, before, gates, b->y + 12000);
  k->gru_cell_backward(3, size, gates, before, dh, b->y + 14000, b->y + 20000);
}

static void *work(size_t bytes) {
  void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
  assert_non_null(workspace);
  memset(workspace, 0xFF, bytes);
  return workspace;
}

/* Heads of this many elements, in rows that leave rests of blocks. */
static struct attention attention_of(int64_t size, neap_dtype storage) {
  static int32_t places[69]; /* of sequences of 29 */
  for (int32_t i = 0; i < 69; i++) places[i] = i % 29;
  return (struct attention){.sequences = 1,
                            .queries = 69,
                            .length = 69,
                            .keys = 71,
                            .heads = 2,
                            .key_heads = 1,
                            .depth = size,
                            .query_row = 2 * size,
                            .key_row = size,
                            .causal = true,
                            .patterns = {.of = {{.reach = 66}}},
                            .scale = 0.3f,
                            .probability = 0.2f,
                            .storage = storage,
                            .key = {3, 4},
                            .places = places};
}

/* Every other query alone, the first and the last one too. */
static void run_attention_of_rows(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  static int32_t numbers[35];
  struct attention a = attention_of(size, NEAP_F32);
  for (int32_t i = 0; i < 35; i++) numbers[i] = 2 * i;
  a.places = NULL;
  a.rows = numbers;
  a.queries = 35;
  const int64_t queries = a.queries * a.query_row, keys = a.keys * a.key_row, rows = a.heads * a.length;
  const float *q = b->x, *key = q + queries, *v = key + keys, *dy = v + keys;
  float *dq = b->y, *dk = dq + queries, *dv = dk + keys, *log_sum = dv + keys;
  for (int64_t i = 0; i < rows; i++) log_sum[i] = 5 + dy[2 * queries + i];
  assert_true(dy + 2 * queries + rows <= b->x + ELEMENTS && log_sum + rows <= b->y + ELEMENTS);
  void *workspace = work(k->attention_workspace(a, true, omp_get_max_threads()));
  k->attention_backward(a, (struct attended){q, key, v, dy + queries, log_sum},
                        (struct attention_gradients){dy, dq, dk, dv}, workspace);
  free(workspace);
}

static void run_kept_rows(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  const int32_t numbers[] = {0, 3, 4, 8};
  const struct kept_rows rows = {3, 9, 4, numbers};
  float *y = b->y + 12 * size;
  k->gather_rows(rows, (size_t)size * sizeof *b->x, b->x, b->y);
  k->scatter_rows(rows, size, b->y, b->x, y);
  k->scatter_rows(rows, size, b->y, y, y);
  k->scatter_rows(rows, size, b->x, NULL, y + 27 * size);
}

static void run_attention(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  const struct attention a = attention_of(size, NEAP_F32);
  const int64_t queries = a.queries * a.query_row, keys = a.keys * a.key_row, rows = a.heads * a.queries;
  const float *q = b->x, *key = q + queries, *v = key + keys, *dy = v + keys;
  float *y = b->y, *log_sum = y + queries, *dq = log_sum + rows, *dk = dq + queries, *dv = dk + keys;
  assert_true(dy + queries <= b->x + ELEMENTS && dv + keys <= b->y + ELEMENTS);
  void *workspace = work(k->attention_workspace(a, true, omp_get_max_threads()));
  k->attention(a, q, key, v, y, log_sum, workspace);
  k->attention_backward(a, (struct attended){q, key, v, y, log_sum},
                        (struct attention_gradients){dy, dq, dk, dv}, workspace);
  free(workspace);
}

/* The results as floats, each as large as those of f32 may be. */
static void run_attention_half(const struct cpu_kernels *k, struct buffers *b, int64_t size,
                               neap_dtype storage) {
  const struct attention a = attention_of(size, storage);
  const int64_t queries = a.queries * a.query_row, keys = a.keys * a.key_row, rows = a.heads * a.queries,
                all = 2 * (queries + keys);
  uint16_t *q = work((size_t)(all + 2 * queries + 2 * keys) * sizeof *q), *key = q + queries, *v = key + keys,
           *dy = v + keys, *y = q + all, *dq = y + queries, *dk = dq + queries, *dv = dk + keys;
  assert_true(all <= ELEMENTS && rows + all <= ELEMENTS);
  k->narrow(storage, all, b->x, q);
  void *workspace = work(k->attention_workspace(a, true, omp_get_max_threads()));
  k->attention(a, q, key, v, y, b->y, workspace);
  k->attention_backward(a, (struct attended){q, key, v, y, b->y},
                        (struct attention_gradients){dy, dq, dk, dv}, workspace);
  k->widen(storage, all, y, b->y + rows);
  free(workspace);
  free(q);
}

static void run_narrow_randomly(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  for (int i = 0; i < 3; i++) {
    const int64_t first = 8 * size + 3 * i, place = 8192 * i;
    k->narrow_randomly(NEAP_BF16, 70 * size, b->x, b->y + place, (struct random_key){3, 4}, first);
    k->narrow_randomly(NEAP_F16, 70 * size, b->x, b->y + place + 24576, (struct random_key){3, 4}, first);
  }
}

static void run_rotary(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  const struct rotary r = {2, 9, 3, 2 * size, 2, 2 * size, 5, 100, false, {8, 1, 4, 64, 0}, NULL};
  void *workspace = work(k->rotary_workspace(r, omp_get_max_threads()));
  k->rotary(r, b->x, b->y, workspace);
  free(workspace);
}

static void run_positions(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  k->positions(9, size, 100000, b->y);
}

static void run_sequence_mask(const struct cpu_kernels *k, struct buffers *b, int64_t size) {
  const int32_t lengths[] = {3, 0, 9, -1};
  k->sequence_mask(4, 5, (size_t)size * sizeof *b->x, lengths, b->x, b->y);
}

static const struct {
  const char *name;
  run_kernel *run;
} kernels[] = {
    {"relu_mask", run_relu_mask},
    {"relu_mask_backward", run_relu_mask_backward},
    {"compress", run_compress},
    {"crop", run_crop},
    {"crop_backward", run_crop_backward},
    {"resize", run_resize},
    {"resize_backward", run_resize_backward},
    {"adaptive_average_pool", run_adaptive_pool},
    {"adaptive_average_pool_backward", run_adaptive_pool_backward},
    {"softmax_cross_entropy", run_loss},
    {"softmax_cross_entropy_backward", run_loss_backward},
#define UNARY(NAME, id, ...) {#id, run_##id}, {#id "_backward", run_##id##_backward},
#include "op/elementwise_list.h"
#define GATED(NAME, id, ...) {#id, run_##id},
#include "op/gated_list.h"
    {"sum", run_sum},
    {"take", run_take},
    {"take_backward", run_take_backward},
    {"softmax", run_softmax},
    {"row_norm", run_row_norm},
    {"sequence_conv", run_sequence_conv},
    {"triangular", run_triangular},
    {"broadcast", run_broadcast},
    {"lstm", run_lstm},
    {"gru", run_gru},
    {"attention", run_attention},
    {"attention of rows", run_attention_of_rows},
    {"kept_rows", run_kept_rows},
    {"narrow_randomly", run_narrow_randomly},
    {"rotary", run_rotary},
    {"positions", run_positions},
    {"sequence_mask", run_sequence_mask},
    {"sparse", run_sparse},
    {"narrow_randomly_at", run_narrow_randomly_at},
    {"pixels", run_pixels},
};

static bool near(float a, float b) {
  return memcmp(&a, &b, sizeof a) == 0 || fabsf(a - b) <= 2e-6f * fmaxf(1, fabsf(b));
}

static void compare(const char *name, const char *table, int64_t size, const struct buffers *expected,
                    const struct buffers *got) {
  for (int i = 0; i < ELEMENTS; i++)
    if (!near(got->y[i], expected->y[i]))
      fail_msg("%s, %s, size %d: element %d is %.9g, not %.9g", name, table, (int)size, i, (double)got->y[i],
               (double)expected->y[i]);
  assert_memory_equal(got->bytes, expected->bytes, sizeof got->bytes);
  assert_true(near(got->loss, expected->loss));
  assert_int_equal(got->correct, expected->correct);
}

static void test_tables(void **state) {
  (void)state;
  const struct cpu_kernels *tables[TABLES];
  int count = 0;
  while (count < TABLES && (tables[count] = cpu_kernels_at(count)) != NULL) count++;
  assert_true(count > 0);
  static const int64_t sizes[] = {1, 2, 7, 8, 15, 16, 17, 21, 64, 71, 130};
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      struct buffers *expected = make();
      kernels[k].run(tables[count - 1], expected, sizes[i]);
      for (int t = 0; t + 1 < count; t++) {
        struct buffers *got = make();
        kernels[k].run(tables[t], got, sizes[i]);
        compare(kernels[k].name, tables[t]->name, sizes[i], expected, got);
        free(got);
      }
      free(expected);
    }
}

static void test_speed_kernels(void **state) {
  (void)state;
  const struct cpu_kernels *k;
  for (int t = 0; (k = cpu_kernels_at(t)) != NULL; t++) {
    double flops[2];
    assert_float_equal(k->multiply_adds(100, &flops[0]), 1, 1e-6); /* x = x / 2 + 1 / 2, again and again */
    k->multiply_adds(300, &flops[1]);
    assert_true(flops[0] > 0 && flops[1] == 3 * flops[0]);
    assert_true(k->bf16_dot_products(100, &flops[0]) == 0);
    k->bf16_dot_products(300, &flops[1]);
    assert_true(flops[0] >= 0 && flops[1] == 3 * flops[0]);
    for (int64_t count = 0; count < 70; count++) {
      struct buffers *b = make();
      memset(b->y, 0, sizeof b->y);
      k->copy(count, b->x, b->y);
      assert_memory_equal(b->y, b->x, (size_t)count * sizeof *b->y);
      k->stream_copy(count, b->x, b->y + 128);
      assert_memory_equal(b->y + 128, b->x, (size_t)count * sizeof *b->y);
      assert_true(b->y[count] == 0 && b->y[128 + count] == 0);
      free(b);
    }
  }
}

/* Attention of 16 bits: floats of half the type's step, or products of bf16, whose scores are rounded, too.
 */
static void test_attention_of_16_bits(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 2, 7, 16, 21, 64, 71, 130};
  static const struct {
    neap_dtype storage;
    float step;
  } types[] = {{NEAP_BF16, 0x1p-8f}, {NEAP_F16, 0x1p-11f}};
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
    struct buffers *expected = make();
    float largest = 0;
    int last = 0;
    while (cpu_kernels_at(last + 1) != NULL) last++;
    run_attention_half(cpu_kernels_at(last), expected, sizes[i / 2], types[i % 2].storage);
    for (int e = 0; e < ELEMENTS; e++)
      if (isfinite(expected->y[e])) largest = fmaxf(largest, fabsf(expected->y[e]));
    for (int t = 0; t < last; t++) {
      struct buffers *got = make();
      run_attention_half(cpu_kernels_at(t), got, sizes[i / 2], types[i % 2].storage);
      for (int e = 0; e < ELEMENTS; e++)
        if (memcmp(&got->y[e], &expected->y[e], sizeof got->y[e]) != 0 &&
            !(fabsf(got->y[e] - expected->y[e]) <= 2 * types[i % 2].step * largest))
          fail_msg("%s, size %d: element %d is %g, not %g", cpu_kernels_at(t)->name, (int)sizes[i / 2], e,
                   (double)got->y[e], (double)expected->y[e]);
      free(got);
    }
    free(expected);
  }
}

/* Random bits are those of the counter that is the element's place, whatever part of a tensor is rounded. */
static void test_narrow_randomly(void **state) {
  (void)state;
  const struct random_key key = {5, 7};
  struct buffers *b = make();
  uint16_t whole[3000], part[3000];
  for (int t = 0; cpu_kernels_at(t) != NULL; t++) {
    cpu_kernels_at(t)->narrow_randomly(NEAP_BF16, 3000, b->x, whole, key, 40000);
    for (uint64_t i = 0; i < 3000; i++) {
      uint32_t word[4];
      random_philox(key.seed, key.stream, (40000 + i) / 8, word);
      assert_int_equal(whole[i], bf16_from_float_randomly(b->x[i], word[i % 8 / 2] >> 16 * (i % 2) & 0xFFFF));
    }
    for (int64_t first = 0, count = 1; first < 3000; first += count, count = 2 * count + 1)
      cpu_kernels_at(t)->narrow_randomly(NEAP_BF16, first + count < 3000 ? count : 3000 - first, b->x + first,
                                         part + first, key, 40000 + first);
    assert_memory_equal(part, whole, sizeof part);
  }
  free(b);
}

int run_test_kernel_tables(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables), cmocka_unit_test(test_speed_kernels),
                                     cmocka_unit_test(test_attention_of_16_bits),
                                     cmocka_unit_test(test_narrow_randomly)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
