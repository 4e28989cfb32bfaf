/* Kernels that take 16 bits: what comes of f32 operands with the same numbers, rounded once. Random words are
 * those that counters give one by one. */
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/random.h"
#include "kernel/cpu/dispatch.h"
#include "testing.h"

/* Odd, and more than a run; enough for a team. */
enum { COUNT = 40003, ROWS = 37, WIDTH = 219 };

struct numbers {
  _Alignas(64) float x[COUNT], y[COUNT], z[COUNT], made[COUNT];
  _Alignas(64) uint16_t x16[COUNT], y16[COUNT], z16[COUNT], made16[COUNT];
  _Alignas(64) unsigned char workspace[1 << 20];
};

/* Numbers that both types have. */
static struct numbers *draw(const struct cpu_kernels *k, neap_dtype storage) {
  struct numbers *n = aligned_alloc(64, sizeof *n);
  assert_non_null(n);
  memset(n, 0xFF, sizeof *n);
  float *const floats[] = {n->x, n->y, n->z};
  uint16_t *const halves[] = {n->x16, n->y16, n->z16};
  for (int o = 0; o < 3; o++) {
    for (int i = 0; i < COUNT; i++) {
      uint32_t word[4];
      random_philox(7, (uint64_t)o, (uint64_t)i, word);
      floats[o][i] = 8 * random_uniform(word[0]) - 4;
      if (o == 2) floats[o][i] = floats[o][i] * floats[o][i]; /* a second moment */
    }
    k->narrow(storage, COUNT, floats[o], halves[o]);
    k->widen(storage, COUNT, halves[o], floats[o]);
  }
  return n;
}

static struct stored of_floats(float *data) { return (struct stored){NEAP_F32, data}; }

/* What a kernel made of floats, to the nearest, is what it made of 16 bits. */
static void assert_rounded(const struct cpu_kernels *k, neap_dtype storage, int64_t count,
                           const float *floats, const uint16_t *halves) {
  uint16_t *wanted = malloc((size_t)count * sizeof *wanted);
  assert_non_null(wanted);
  k->narrow(storage, count, floats, wanted);
  assert_memory_equal(halves, wanted, (size_t)count * sizeof *wanted);
  free(wanted);
}

static void check_elementwise(const struct cpu_kernels *k, neap_dtype storage) {
  struct numbers *n = draw(k, storage);
  const struct scalars none = {0};
  k->gelu(COUNT, none, of_floats(n->x), of_floats(n->made));
  k->gelu(COUNT, none, (struct stored){storage, n->x16}, (struct stored){storage, n->made16});
  assert_rounded(k, storage, COUNT, n->made, n->made16);
  k->gelu(COUNT, none, (struct stored){storage, n->x16}, of_floats(n->z)); /* of mixed types */
  assert_memory_equal(n->z, n->made, sizeof n->made);
  k->gelu_backward(COUNT, none, of_floats(n->x), of_floats(n->y), of_floats(n->made));
  k->gelu_backward(COUNT, none, (struct stored){storage, n->x16}, (struct stored){storage, n->y16},
                   (struct stored){storage, n->made16});
  assert_rounded(k, storage, COUNT, n->made, n->made16);
  k->multiply(COUNT, n->x, n->y, n->made);
  k->multiply_stored(COUNT, (struct stored){storage, n->x16}, (struct stored){storage, n->y16},
                     (struct stored){storage, n->y16}); /* in place */
  assert_rounded(k, storage, COUNT, n->made, n->y16);
  k->convert(COUNT, (struct stored){storage, n->x16}, of_floats(n->made));
  assert_memory_equal(n->made, n->x, sizeof n->x);
  k->convert(COUNT, of_floats(n->x), (struct stored){storage, n->made16});
  assert_memory_equal(n->made16, n->x16, sizeof n->x16);
  free(n);
}

static void check_rows(const struct cpu_kernels *k, neap_dtype storage) {
  struct numbers *n = draw(k, storage);
  struct row_norm norm = {ROWS, WIDTH, 1, 1, 1e-5f, true, NEAP_F32};
  const float *gamma = n->z, *beta = n->z + WIDTH;
  float mean[2][ROWS], inverse[2][ROWS], dgamma[2][WIDTH], dbeta[2][WIDTH];
  assert_true(k->row_norm_workspace(norm) <= sizeof n->workspace);
  k->row_norm(norm, n->x, gamma, beta, n->made, mean[0], inverse[0]);
  norm.storage = storage;
  k->row_norm(norm, n->x16, gamma, beta, n->made16, mean[1], inverse[1]);
  assert_rounded(k, storage, ROWS * WIDTH, n->made, n->made16);
  assert_memory_equal(mean[0], mean[1], sizeof mean[0]);
  norm.storage = NEAP_F32;
  k->row_norm_backward(norm, n->x, n->y, mean[0], inverse[0], gamma,
                       (struct norm_gradients){n->made, dgamma[0], dbeta[0]}, n->workspace);
  norm.storage = storage;
  k->row_norm_backward(norm, n->x16, n->y16, mean[0], inverse[0], gamma,
                       (struct norm_gradients){n->y16, dgamma[1], dbeta[1]},
                       n->workspace); /* in place of dy */
  assert_rounded(k, storage, ROWS * WIDTH, n->made, n->y16);
  assert_memory_equal(dgamma[0], dgamma[1], sizeof dgamma[0]);
  assert_memory_equal(dbeta[0], dbeta[1], sizeof dbeta[0]);
  free(n);
}

static void check_bias(const struct cpu_kernels *k, neap_dtype storage) {
  struct numbers *n = draw(k, storage);
  float sums[2][WIDTH];
  struct activation a = {ROWS, WIDTH, 1, 1, WIDTH, NEAP_F32};
  k->bias_backward(a, n->x, sums[0], n->workspace);
  a.storage = storage;
  k->bias_backward(a, n->x16, sums[1], n->workspace);
  assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
  for (int c = 0; c < WIDTH; c++) {
    double sum = 0;
    for (int r = 0; r < ROWS; r++) sum += (double)n->x[r * WIDTH + c];
    assert_float_equal(sums[0][c], sum, 1e-4);
  }
  free(n);
}

/* The 16 bits that element `i` of a draw is rounded by. */
static uint32_t rounding_bits(struct random_key key, int64_t i) {
  uint32_t word[4];
  random_philox(key.seed, key.stream, (uint64_t)i / 8, word);
  return word[i % 8 / 2] >> 16 * (i & 1) & 0xFFFF;
}

static void check_rounding(const struct cpu_kernels *k, neap_dtype storage) {
  static const struct {
    int64_t first, count;
  } cases[] = {{0, COUNT}, {128, 1024}, {5, 1}, {127, 2}, {1000003, 3000}, {((int64_t)1 << 35) - 60, 500}};
  struct numbers *n = draw(k, storage);
  const struct random_key key = {0x123456789ABCDEF0, 0xFEDCBA9876543210};
  for (int i = 0; i < COUNT; i++) n->x[i] *= 1.001f; /* so that there is something to round */
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    const int64_t first = cases[c].first, count = cases[c].count;
    memset(n->made16, 0xFF, sizeof n->made16);
    k->narrow_randomly(storage, count, n->x, n->made16, key, first);
    for (int64_t i = 0; i < count; i++) {
      const uint32_t random = rounding_bits(key, first + i);
      const uint16_t wanted = storage == NEAP_BF16 ? bf16_from_float_randomly(n->x[i], random)
                                                   : f16_from_float_randomly(n->x[i], random);
      assert_int_equal(n->made16[i], wanted);
    }
    assert_true(count == COUNT || n->made16[count] == 0xFFFF);
  }
  free(n);
}

static void check_update(const struct cpu_kernels *k, neap_dtype storage) {
  struct numbers *n = draw(k, storage);
  const struct random_key keys[] = {{1, 2}, {3, 4}};
  const struct updated w16 = {storage, n->x16, keys[0], 0}, m16 = {storage, n->y16, keys[1], 0},
                       w = {NEAP_F32, n->x, {0}, 0}, m = {NEAP_F32, n->y, {0}, 0};
  const struct update u = {
      .unit = 0.5f, .rate = 0.1f, .momentum = 0.9f, .weight_decay = 1e-3f, .nesterov = true};
  k->sgd(COUNT, u, w16, m16, (struct updated){0}, (struct stored){storage, n->z16});
  k->sgd(COUNT, u, w, m, (struct updated){0}, of_floats(n->z));
  k->narrow_randomly(storage, COUNT, n->x, n->made16, keys[0], 0);
  assert_memory_equal(n->x16, n->made16, sizeof n->x16);
  k->narrow_randomly(storage, COUNT, n->y, n->made16, keys[1], 0);
  assert_memory_equal(n->y16, n->made16, sizeof n->y16);
  k->clear(COUNT, w16);
  for (int i = 0; i < COUNT; i++) assert_int_equal(n->x16[i], 0);
  free(n);
}

static void check_all(void (*check)(const struct cpu_kernels *k, neap_dtype storage)) {
  const struct cpu_kernels *k;
  for (int table = 0; (k = cpu_kernels_at(table)) != NULL; table++) {
    check(k, NEAP_BF16);
    check(k, NEAP_F16);
  }
}

static void test_elementwise(void **state) { (void)state, check_all(check_elementwise); }
static void test_rows(void **state) { (void)state, check_all(check_rows); }
static void test_bias(void **state) { (void)state, check_all(check_bias); }
static void test_rounding(void **state) { (void)state, check_all(check_rounding); }
static void test_update(void **state) { (void)state, check_all(check_update); }

/* Each element is kept or dropped by its place in row-major order, whatever the layout. */
static void test_dropout(void **state) {
  (void)state;
  static const struct activation cases[] = {{2, 21, 4, 5, 16, NEAP_F32}, {2, 21, 3, 5, 16, NEAP_F32},
                                            {3, 40, 2, 4, 8, NEAP_F32},  {2, 35, 6, 2, 35, NEAP_F32},
                                            {3, 7, 5, 3, 1, NEAP_F32},   {9, 130, 1, 1, 130, NEAP_F32}};
  static const int64_t begins[] = {0, 4, 1001};
  const struct random_key key = {5, 6};
  const struct cpu_kernels *k;
  struct numbers *n = draw(cpu_kernels_at(0), NEAP_BF16);
  for (int table = 0; (k = cpu_kernels_at(table)) != NULL; table++)
    for (size_t c = 0; c < 3 * sizeof cases / sizeof *cases; c++) {
      const struct activation a = cases[c / 3];
      const int64_t begin = begins[c % 3], pixels = a.height * a.width,
                    blocks = (a.channels + a.lanes - 1) / a.lanes;
      k->dropout(a, key, begin, 0.25f, n->x, n->made);
      for (int64_t i = 0; i < a.images * blocks * pixels * a.lanes; i++) {
        const int64_t lane = i % a.lanes, pixel = i / a.lanes % pixels, block = i / a.lanes / pixels % blocks,
                      image = i / a.lanes / pixels / blocks, channel = block * a.lanes + lane,
                      place = begin + (image * a.channels + channel) * pixels + pixel;
        uint32_t word[4];
        random_philox(key.seed, key.stream, (uint64_t)place / 4, word);
        const bool kept = channel < a.channels && random_uniform(word[place % 4]) >= 0.25f;
        assert_true(n->made[i] == (kept ? n->x[i] * (1 / 0.75f) : 0));
      }
    }
  free(n);
}

int run_test_stored_kernels(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elementwise), cmocka_unit_test(test_rows),   cmocka_unit_test(test_bias),
      cmocka_unit_test(test_rounding),    cmocka_unit_test(test_update), cmocka_unit_test(test_dropout),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
