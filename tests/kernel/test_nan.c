/* NaN stays NaN where values are compared: forward, and for the gradient as PyTorch does it. Its kernels of
 * ReLU, ReLU6 and max pooling let the gradient of NaN through, that of clip is 0 there. Every instruction
 * set, storage and variant, and the reference. */
#include "session_help.h"

#include "kernel/cpu/dispatch.h"

enum { N = 2, C = 19, SIDE = 6, ELEMENTS = N * C * SIDE * SIDE, STEP = 5 };

/* One operator on x = parameter + input [N, C, SIDE, SIDE]. */
struct nan_case {
  const char *name;
  neap_tensor (*apply)(neap_builder *b, neap_tensor x);
  bool pools;      /* windows of 2 x 2 */
  bool normalises; /* all of a channel is NaN where one is */
  float slope;     /* of the gradient at NaN */
};

static neap_tensor relu(neap_builder *b, neap_tensor x) { return neap_relu(b, x); }
static neap_tensor relu6(neap_builder *b, neap_tensor x) { return neap_relu6(b, x); }
static neap_tensor clip(neap_builder *b, neap_tensor x) { return neap_clip(b, x, -1, 1); }
static neap_tensor max_pool(neap_builder *b, neap_tensor x) {
  return neap_max_pool(b, x, (neap_pool_options){.size = 2, .stride = 2});
}
static neap_tensor relu_pool(neap_builder *b, neap_tensor x) { return max_pool(b, neap_relu(b, x)); }
static neap_tensor norm_relu(neap_builder *b, neap_tensor x) {
  return neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
}
static neap_tensor norm_relu6(neap_builder *b, neap_tensor x) {
  return neap_relu6(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
}

static const struct nan_case cases[] = {{"relu", relu, .slope = 1},
                                        {"relu6", relu6, .slope = 1},
                                        {"clip", clip, .slope = 0},
                                        {"max pool", max_pool, .pools = true, .slope = 1},
                                        {"relu and max pool", relu_pool, .pools = true, .slope = 1},
                                        {"batch norm and relu", norm_relu, .normalises = true},
                                        {"batch norm and relu6", norm_relu6, .normalises = true}};

/* The loss is the mean of y times a constant, so that the gradient that comes to y is known. */
static neap_graph *build(const struct nan_case *c) {
  const int64_t dims[] = {N, C, SIDE, SIDE};
  neap_builder *b = neap_builder_create(c->name);
  const neap_tensor p =
      neap_parameter(b, "p", 4, dims, (neap_parameter_options){.initial = NEAP_INITIAL_ZERO});
  const neap_tensor y = c->apply(b, neap_add(b, p, neap_input(b, "x", NEAP_F32, 4, dims)));
  int64_t out[NEAP_MAX_RANK];
  assert_int_equal(neap_shape(b, y, out), 4);
  neap_output(b, "y", y);
  neap_graph *graph = NULL;
  ASSERT_OK(neap_builder_finish(
      b, neap_mean(b, neap_multiply(b, y, neap_input(b, "c", NEAP_F32, 4, out)), NULL, 0, false), &graph));
  neap_builder_free(b);
  return graph;
}

/* NaN at every STEP-th element; the others are in [-8, 8), those of a window differ. */
static float element(int64_t i) { return i % STEP == 0 ? NAN : (float)(i * 37 % 64) / 4 - 8; }

/* Which element of a window of 2 x 2 has the gradient: the last NaN, else the largest. */
static int64_t winner(int64_t o) {
  const int64_t half = SIDE / 2, plane = o / (half * half), row = o / half % half, column = o % half;
  int64_t best = plane * SIDE * SIDE + 2 * row * SIDE + 2 * column;
  for (int k = 1; k < 4; k++) {
    const int64_t i = plane * SIDE * SIDE + (2 * row + k / 2) * SIDE + 2 * column + k % 2;
    if (isnan(element(i)) || element(i) > element(best)) best = i;
  }
  return best;
}

static void fill(neap_session *s, int64_t outputs) {
  float *x = neap_session_input(s, "x"), *c = neap_session_input(s, "c");
  for (int64_t i = 0; i < ELEMENTS; i++) x[i] = element(i);
  for (int64_t i = 0; i < outputs; i++) c[i] = (float)outputs; /* so that the gradient is 1 */
}

static void expect_output(const struct nan_case *c, neap_session *s, int64_t outputs) {
  static float y[ELEMENTS];
  ASSERT_OK(neap_session_predict(s));
  ASSERT_OK(neap_session_output(s, "y", NULL, y));
  for (int64_t i = 0; i < outputs; i++) {
    const float x = element(c->pools ? winner(i) : i);
    if (isnan(x) != isnan(y[i])) fail_msg("%s: y[%d] is %g of %g", c->name, (int)i, (double)y[i], (double)x);
  }
}

/* What SGD with a rate of 1 has taken from a parameter of 0. */
static void expect_gradient(const struct nan_case *c, neap_session *s, int64_t outputs) {
  static float p[ELEMENTS];
  static bool wins[ELEMENTS];
  memset(wins, c->pools ? 0 : 1, sizeof wins);
  for (int64_t o = 0; o < (c->pools ? outputs : 0); o++) wins[winner(o)] = true;
  neap_step_result result;
  ASSERT_OK(neap_session_step(s, 1, &result));
  assert_true(isnan(result.loss));
  ASSERT_OK(neap_session_read(s, 0, p));
  for (int64_t i = 0; i < ELEMENTS; i++) {
    if (!isnan(element(i))) continue;
    const float expected = wins[i] ? -c->slope : 0;
    if (c->normalises ? !isnan(p[i]) : p[i] != expected)
      fail_msg("%s: the gradient at NaN, element %d, is %g", c->name, (int)i, (double)-p[i]);
  }
}

static void run(const struct nan_case *c, neap_session_options options) {
  neap_graph *graph = build(c);
  neap_session *s = NULL;
  options.budget = NEAP_BUDGET_MAX;
  options.threads = 2;
  const int64_t outputs = c->pools ? ELEMENTS / 4 : ELEMENTS;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  fill(s, outputs);
  expect_gradient(c, s, outputs);
  neap_session_free(s);
  options.predict = true;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  float *x = neap_session_input(s, "x");
  for (int64_t i = 0; i < ELEMENTS; i++) x[i] = element(i);
  expect_output(c, s, outputs);
  neap_session_free(s);
  neap_graph_free(graph);
}

static void run_all(neap_session_options options) {
  static const neap_dtype precisions[] = {NEAP_F32, NEAP_BF16, NEAP_F16};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int k = 0; k < (options.backend == NEAP_CPU ? 3 : 1); k++)
      for (int variant = NEAP_VARIANT_BASE; variant <= NEAP_VARIANT_MASK; variant++) {
        options.precision = precisions[k];
        options.variant = (neap_variant)variant;
        run(&cases[i], options);
      }
}

static void test_reference(void **state) {
  (void)state;
  run_all((neap_session_options){.backend = NEAP_REFERENCE});
}

static void test_instruction_sets(void **state) {
  (void)state;
  for (int i = 0; cpu_kernels_at(i) != NULL; i++) {
    setenv("NEAP_MAX_CPU_ISA", cpu_kernels_at(i)->name, 1);
    run_all((neap_session_options){0});
  }
  unsetenv("NEAP_MAX_CPU_ISA");
}

/* Types that are no numbers to the kernels have no bytes; they read as NaN, and nothing is written to them.
 */
static void test_unknown_storage(void **state) {
  (void)state;
  for (neap_dtype dtype = 0; (int32_t)dtype < dtype_count; dtype++) {
    if (dtype == NEAP_F32 || dtype == NEAP_BF16 || dtype == NEAP_F16) continue;
    assert_int_equal(bytes_of(dtype), 0);
    for (int i = 0; cpu_kernels_at(i) != NULL; i++) {
      float x[40] = {0}, y[40];
      uint16_t out[40];
      memset(out, 0x55, sizeof out);
      cpu_kernels_at(i)->widen(dtype, 40, x, y);
      cpu_kernels_at(i)->narrow(dtype, 40, x, out);
      for (int k = 0; k < 40; k++) assert_true(isnan(y[k]) && out[k] == 0x5555);
    }
  }
}

int run_test_nan(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference),
                                     cmocka_unit_test(test_instruction_sets),
                                     cmocka_unit_test(test_unknown_storage)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
