/* Values in blocks of few bits: their mean, how far they are off, what is not finite, ends of tensors and
 * layouts, in every backend and type. */
#include <math.h>

#include "base/quantised.h"
#include "base/random.h"
#include "interpreter.h"

enum { BLOCKS = 3, REST = 44, COUNT = BLOCKS * COMPRESSED_BLOCK + REST, SEEDS = 1000 };

/* x -> blocks -> numbers. */
struct round_trip {
  struct neap_graph *graph;
  struct lowered *lowered;
  struct interpreter m;
  int32_t x, blocks, numbers; /* in the lowered graph */
};

static void find_tensors(struct round_trip *r) {
  const struct neap_graph *graph = r->lowered->graph;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op == OP_COMPRESS) r->x = node->inputs[0], r->blocks = node->outputs[0];
    if (node->op == OP_DEQUANTISE) r->numbers = node->outputs[0];
  }
}

/* With a convolution of this number of filters before it; 0: none. */
static void open_trip(struct round_trip *r, const struct backend *backend, neap_dtype type, neap_dtype dtype,
                      int64_t filters) {
  struct tensor
      x = {.name = "x", .dtype = type, .role = NEAP_ROLE_INPUT, .rank = 1, .dims = {COUNT}, .view_of = -1},
      w = {.name = "w", .role = NEAP_ROLE_PARAMETER, .rank = 4, .dims = {filters, 8, 1, 1}, .view_of = -1};
  int32_t at, blocks, numbers, inputs[4] = {0, 0, NO_TENSOR, NO_TENSOR};
  if (filters > 0) {
    x.rank = 4;
    memcpy(x.dims, (int64_t[]){2, 8, 5, 7}, 4 * sizeof *x.dims);
  }
  assert_ok(graph_create("round trip", &r->graph));
  assert_ok(graph_add_tensor(r->graph, x, &at));
  if (filters > 0) {
    inputs[0] = at;
    assert_ok(graph_add_tensor(r->graph, w, &inputs[1]));
    assert_ok(graph_apply(r->graph, OP_CONV, "conv",
                          &(union attributes){.conv = {.stride = 1, .dilation = 1, .groups = 1}}, inputs, 2,
                          &at));
  }
  assert_ok(
      graph_apply(r->graph, OP_COMPRESS, "x", &(union attributes){.dtype = (int32_t)dtype}, &at, 1, &blocks));
  assert_ok(graph_apply(r->graph, OP_DEQUANTISE, "x", &(union attributes){.dtype = (int32_t)type}, &blocks, 1,
                        &numbers));
  assert_ok(lower(r->graph, backend, &(struct lower_options){.threads = 1}, NULL, &r->lowered));
  r->m = interpreter_create(r->lowered, 0, 0xFF);
  find_tensors(r);
}

static void close_trip(struct round_trip *r) {
  interpreter_free(&r->m);
  lowered_free(r->lowered);
  neap_graph_free(r->graph);
}

static double *run_trip(const struct round_trip *r, uint64_t seed, uint64_t step) {
  interpreter_run(&r->m, &(struct run_context){.seed = seed, .step = step});
  return interpreter_read(&r->m, r->numbers);
}

/* Blocks of plain numbers, of numbers far from 0, of one number; at the end zeros with one number. What a
 * type of 16 bits holds is written there. */
static void fill(const struct round_trip *r, double *x) {
  for (int i = 0; i < COUNT; i++) {
    uint32_t word[4];
    random_philox(5, 6, (uint64_t)i, word);
    const double u = (double)random_uniform(word[0]);
    x[i] = i < COMPRESSED_BLOCK       ? 2 * u - 1
           : i < 2 * COMPRESSED_BLOCK ? -100 - u
           : i < 3 * COMPRESSED_BLOCK ? 0.1
                                      : 5 * (double)(i == COUNT - 7);
  }
  interpreter_write(&r->m, 0, x);
  double *written = interpreter_read(&r->m, 0);
  memcpy(x, written, COUNT * sizeof *x);
  free(written);
}

/* The distance of neighbours in each block. */
static void read_steps(const struct round_trip *r, neap_dtype dtype, double step[BLOCKS + 1]) {
  for (int b = 0; b <= BLOCKS; b++) {
    struct c4 head;
    memcpy(&head, (unsigned char *)r->m.data[r->blocks] + b * dtype_rows[dtype].block_bytes, sizeof head);
    step[b] = (double)bf16_to_float(head.step);
  }
}

/* The most that a number may be off: a step, which covers the block's span and what rounding to bf16 adds. */
static double bound_of(const double *x, int block, int most) {
  const int first = block * COMPRESSED_BLOCK, end = block == BLOCKS ? COUNT : first + COMPRESSED_BLOCK;
  double low = x[first], high = low;
  for (int i = first; i < end; i++) low = fmin(low, x[i]), high = fmax(high, x[i]);
  return (high - low + fabs(low) / 128) / most * (1 + 1.0 / 128);
}

/* Over many seeds each number has the mean x, and each is one of the two neighbours of x. `unit`: by what the
 * type's own rounding changes a number, of its size. */
static void expect_mean(const struct backend *backend, neap_dtype type, neap_dtype dtype, double unit) {
  struct round_trip r;
  double x[COUNT], sum[COUNT] = {0}, step[BLOCKS + 1], far = 0;
  open_trip(&r, backend, type, dtype, 0);
  fill(&r, x);
  for (int seed = 0; seed < SEEDS; seed++) {
    double *y = run_trip(&r, (uint64_t)seed + 1, 3);
    for (int i = 0; i < COUNT; i++) {
      const double bound = bound_of(x, i / COMPRESSED_BLOCK, dtype == NEAP_C8 ? 255 : 15);
      assert_true(fabs(y[i] - x[i]) <= bound + unit * (fabs(x[i]) + bound));
      sum[i] += y[i];
    }
    free(y);
  }
  read_steps(&r, dtype, step);
  for (int i = 0; i < COUNT; i++) {
    struct c4 head;
    memcpy(&head, (unsigned char *)r.m.data[r.blocks] + i / COMPRESSED_BLOCK * dtype_rows[dtype].block_bytes,
           sizeof head);
    const double s = step[i / COMPRESSED_BLOCK],
                 place = s > 0 ? (x[i] - (double)bf16_to_float(head.least)) / s : 0,
                 part = place - floor(place), sigma = s * sqrt(part * (1 - part) / SEEDS),
                 off = fabs(sum[i] / SEEDS - x[i]) - unit * (fabs(x[i]) + s);
    assert_true(off <= 4.5 * sigma + 2 * s / SEEDS);
    far += off > 3 * sigma + 2 * s / SEEDS;
  }
  assert_true(far <= 0.01 * COUNT);
  close_trip(&r);
}

static void test_mean(void **state) {
  (void)state;
  for (neap_dtype dtype = NEAP_C8; dtype <= NEAP_C4; dtype++) {
    expect_mean(&reference_backend, NEAP_F32, dtype, 0x1p-22);
    expect_mean(&cpu_backend, NEAP_F32, dtype, 0x1p-22);
    expect_mean(&cpu_backend, NEAP_BF16, dtype, 0x1p-8);
    expect_mean(&cpu_backend, NEAP_F16, dtype, 0x1p-11);
  }
}

/* Both backends draw the same numbers; other seeds and steps draw others, the same seed the same again. */
static void test_draws(void **state) {
  (void)state;
  struct round_trip r[2];
  double x[COUNT];
  open_trip(&r[0], &reference_backend, NEAP_F32, NEAP_C4, 0);
  open_trip(&r[1], &cpu_backend, NEAP_F32, NEAP_C4, 0);
  fill(&r[0], x);
  fill(&r[1], x);
  double *expected = run_trip(&r[0], 1, 2), *got = run_trip(&r[1], 1, 2), *again = run_trip(&r[1], 1, 2);
  for (int i = 0; i < COUNT; i++) assert_true(expected[i] == got[i]);
  assert_memory_equal(got, again, COUNT * sizeof *got);
  for (int other = 0; other < 2; other++) {
    double *drawn = run_trip(&r[1], other == 0 ? 7 : 1, other == 0 ? 2 : 3);
    int same = 0;
    for (int i = 0; i < COMPRESSED_BLOCK; i++) same += drawn[i] == got[i];
    assert_true(same > COMPRESSED_BLOCK / 2 && same < COMPRESSED_BLOCK * 5 / 6); /* 2 / 3 is the mean */
    free(drawn);
  }
  free(expected);
  free(got);
  free(again);
  close_trip(&r[0]);
  close_trip(&r[1]);
}

/* A block with a number that is not finite, or with a span that f32 does not have, becomes NaN; others stay.
 */
static void test_not_finite(void **state) {
  (void)state;
  static const double wrong[] = {NAN, INFINITY, -INFINITY, 3e38};
  static const struct backend *const backends[] = {&reference_backend, &cpu_backend};
  for (size_t k = 0; k < 2 * sizeof wrong / sizeof *wrong; k++) {
    struct round_trip r;
    double x[COUNT];
    open_trip(&r, backends[k % 2], NEAP_F32, k / 2 % 2 == 0 ? NEAP_C8 : NEAP_C4, 0);
    fill(&r, x);
    x[COMPRESSED_BLOCK + 9] = x[COUNT - 3] = wrong[k / 2];
    x[COMPRESSED_BLOCK + 10] = x[COUNT - 4] = wrong[k / 2] > 1e38 ? -3e38 : 0;
    interpreter_write(&r.m, 0, x);
    double *y = run_trip(&r, 1, 2);
    for (int i = 0; i < COUNT; i++)
      assert_true(isnan(y[i]) == (i / COMPRESSED_BLOCK == 1 || i / COMPRESSED_BLOCK == BLOCKS));
    free(y);
    close_trip(&r);
  }
}

/* Elements of channels that lie in blocks or last come back to their places, and no lane that fills up a
 * block is read. */
static void test_layouts(void **state) {
  (void)state;
  static const int64_t filters[] = {16, 20, 64, 3};
  for (size_t k = 0; k < sizeof filters / sizeof *filters; k++) {
    struct round_trip r;
    double values[64 * 8];
    open_trip(&r, &cpu_backend, NEAP_F32, NEAP_C8, filters[k]);
    for (int i = 0; i < 2 * 8 * 5 * 7 && i < 64 * 8; i++) values[i] = (double)(i * 37 % 101 - 50) / 32;
    double image[2 * 8 * 5 * 7];
    for (int i = 0; i < 2 * 8 * 5 * 7; i++) image[i] = (double)(i * 53 % 97 - 20) / 16;
    interpreter_write(&r.m, 0, image);
    interpreter_write(&r.m, 1, values);
    double *y = run_trip(&r, 1, 2), *x = interpreter_read(&r.m, r.x), low = INFINITY, high = -INFINITY;
    const int64_t count = r.lowered->graph->tensors.data[r.x].elements;
    for (int64_t i = 0; i < count; i++) low = fmin(low, x[i]), high = fmax(high, x[i]);
    assert_true(interpreter_bytes(&r.m, r.blocks) < dtype_bytes(NEAP_C8, (uint64_t)count) + MEMORY_ALIGNMENT);
    for (int64_t i = 0; i < count; i++) assert_true(fabs(x[i] - y[i]) <= (high - low) * 1.1 / 255);
    free(x);
    free(y);
    close_trip(&r);
  }
}

int run_test_compressed_values(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mean), cmocka_unit_test(test_draws),
                                     cmocka_unit_test(test_not_finite), cmocka_unit_test(test_layouts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
