/* A step in micro-batches: without batch norm it is the whole batch's step up to the order of sums; it has
 * the same bits with every plan, goes on from a file, and is whole or not at all. */
#include <math.h>
#include <unistd.h>

#include "effort.h"
#include "session_help.h"

enum { BATCH = 12, CLASSES = 5, STEPS = 3, PIXELS = 3 * 8 * 8 };

static neap_graph *build(int64_t batch, bool norm) {
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("micro");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){batch, 3, 8, 8});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, &batch);
  for (int layer = 0; layer < 2; layer++) {
    x = neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 3, .padding = 1, .bias = true});
    if (norm) x = neap_batch_norm(b, x, (neap_batch_norm_options){0});
    x = neap_silu(b, x);
  }
  x = neap_linear(b, neap_flatten(b, x), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0.1f), &graph));
  neap_builder_free(b);
  return graph;
}

/* The whole batch's images and labels of a step; some labels do not count. */
struct batch {
  float images[BATCH * PIXELS];
  int32_t labels[BATCH];
};

static void draw(struct batch *batch, uint64_t seed) {
  for (int64_t i = 0; i < BATCH * PIXELS; i++) {
    uint32_t word[4];
    random_philox(seed, 1, (uint64_t)i, word);
    batch->images[i] = 2 * random_uniform(word[0]) - 1;
    if (i < BATCH) batch->labels[i] = word[1] % 4 == 0 ? -1 : (int32_t)(word[2] % CLASSES);
  }
}

static int counted(const int32_t *labels, int64_t count) {
  int n = 0;
  for (int64_t i = 0; i < count; i++) n += labels[i] >= 0;
  return n;
}

/* One step of a session with `micro` images a micro-batch: the whole batch's loss. */
static double step(neap_session *s, const struct batch *batch, int64_t micro) {
  double loss = 0;
  for (int64_t first = 0; first < BATCH; first += micro) {
    memcpy(neap_session_input(s, "image"), batch->images + first * PIXELS,
           (size_t)(micro * PIXELS) * sizeof(float));
    memcpy(neap_session_input(s, "label"), batch->labels + first, (size_t)micro * sizeof(int32_t));
    const float share = (float)counted(batch->labels + first, micro) / (float)counted(batch->labels, BATCH);
    neap_step_result result;
    ASSERT_OK(neap_session_micro_step(s, 0.1f, share, &result));
    loss += (double)share * result.loss;
  }
  return loss;
}

static neap_session *open_session(const neap_graph *graph, neap_session_options options, uint64_t budget) {
  neap_session *s = NULL;
  options.budget = budget;
  options.planner = "evict"; /* which plans at once: what the least is does not matter here */
  options.threads = 2;
  options.seed = 3;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

/* Largest difference of a variable by its largest element. */
static double difference(const neap_session *a, const neap_session *b) {
  double worst = 0;
  assert_int_equal(neap_session_variable_count(a), neap_session_variable_count(b));
  for (int32_t i = 0; i < neap_session_variable_count(a); i++) {
    neap_variable v, w;
    ASSERT_OK(neap_session_variable(a, i, &v));
    ASSERT_OK(neap_session_variable(b, i, &w));
    assert_string_equal(v.name, w.name);
    assert_int_equal(v.kind, w.kind);
    float *x = malloc((size_t)v.elements * sizeof *x), *y = malloc((size_t)v.elements * sizeof *y);
    assert_true(x != NULL && y != NULL);
    ASSERT_OK(neap_session_read(a, i, x));
    ASSERT_OK(neap_session_read(b, i, y));
    double most = 1e-3, off = 0;
    for (int64_t e = 0; e < v.elements; e++) {
      most = fmax(most, fabs((double)x[e]));
      off = fmax(off, fabs((double)x[e] - (double)y[e]));
    }
    worst = fmax(worst, off / most);
    free(x);
    free(y);
  }
  return worst;
}

static const neap_parameter_group groups[] = {{"linear*", 0.5f, 0.1f}};

static const neap_session_options optimizers[] = {
    {.optimizer = NEAP_SGD, .weight_decay = 0.01f},
    {.optimizer = NEAP_SGD, .momentum = 0.9f, .weight_decay = 0.01f},
    {.optimizer = NEAP_SGD, .momentum = 0.9f, .weight_decay = 0.01f, .groups = groups, .group_count = 1},
    {.optimizer = NEAP_SGD, .momentum = 0.9f, .nesterov = true},
    {.optimizer = NEAP_SGD, .momentum = 0.9f, .clip_norm = 0.1f},
    {.optimizer = NEAP_SGD, .momentum = 0.9f, .clip_value = 0.01f},
    {.optimizer = NEAP_ADAMW, .weight_decay = 0.1f, .epsilon = 1e-2f},
    {.optimizer = NEAP_ADAM, .epsilon = 1e-2f, .clip_norm = 0.1f},
    {.optimizer = NEAP_RMSPROP, .momentum = 0.9f, .epsilon = 1e-1f}, /* less magnifies rounding */
};

static void check_sums(neap_backend backend, double tolerance) {
  static struct batch batch;
  neap_graph *whole_graph = build(BATCH, false);
  for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++)
    for (int64_t micro = 2; micro <= 6; micro += 2) {
      if (leaves_out(o, (size_t)micro / 2 - 1, 3)) continue;
      neap_session_options options = optimizers[o];
      options.backend = backend;
      options.convolution = NEAP_CONV_DIRECT; /* Winograd's rounding is larger than that of a sum's order */
      neap_graph *graph = build(micro, false);
      neap_session *whole = open_session(whole_graph, options, NEAP_BUDGET_MAX);
      options.micro_batches = (int32_t)(BATCH / micro);
      neap_session *parts = open_session(graph, options, NEAP_BUDGET_MIN);
      for (uint64_t k = 0; k < STEPS; k++) {
        draw(&batch, k + 1);
        const double expected = step(whole, &batch, BATCH), loss = step(parts, &batch, micro);
        if (!(fabs(loss - expected) <= tolerance * fabs(expected)))
          fail_msg("optimizer row %zu, micro-batches of %d: a loss of %.9g, not %.9g", o, (int)micro, loss,
                   expected);
      }
      const double off = difference(whole, parts);
      if (!(off <= tolerance))
        fail_msg("optimizer row %zu, micro-batches of %d: variables are off by %g", o, (int)micro, off);
      neap_session_free(whole);
      neap_session_free(parts);
      neap_graph_free(graph);
    }
  neap_graph_free(whole_graph);
}

static void test_sums(void **state) {
  (void)state;
  check_sums(NEAP_CPU, 2e-5);
  check_sums(NEAP_REFERENCE, 1e-6); /* shares are floats */
}

/* With batch norm, in each precision: one result whatever the plan, also from a file. */
static void test_plans(void **state) {
  (void)state;
  static struct batch batch;
  const int64_t micro = 4;
  neap_graph *graph = build(micro, true);
  for (int k = 0; k < 3; k++) {
    const neap_session_options options = {.momentum = 0.9f,
                                          .micro_batches = BATCH / 4,
                                          .precision = k == 0   ? NEAP_F32
                                                       : k == 1 ? NEAP_BF16
                                                                : NEAP_F16};
    neap_session *everything = open_session(graph, options, NEAP_BUDGET_MAX),
                 *least = open_session(graph, options, NEAP_BUDGET_MIN),
                 *resumed = open_session(graph, options, NEAP_BUDGET_MIN);
    char first[65], second[65], file[] = "/tmp/neap-micro-XXXXXX";
    const int descriptor = mkstemp(file);
    assert_true(descriptor >= 0);
    close(descriptor);
    for (uint64_t i = 0; i < STEPS; i++) {
      draw(&batch, i);
      step(everything, &batch, micro);
      step(least, &batch, micro);
      if (i == 0) ASSERT_OK(neap_session_save(least, file));
      if (i == 0) ASSERT_OK(neap_session_load(resumed, file));
      if (i > 0) step(resumed, &batch, micro);
    }
    ASSERT_OK(neap_session_digest(everything, first));
    ASSERT_OK(neap_session_digest(least, second));
    assert_string_equal(first, second);
    ASSERT_OK(neap_session_digest(resumed, second));
    assert_string_equal(first, second);
    neap_memory memory;
    neap_session_memory(least, &memory);
    assert_int_equal(memory.measured_peak, memory.planned_peak);
    unlink(file);
    neap_session_free(everything);
    neap_session_free(least);
    neap_session_free(resumed);
  }
  neap_graph_free(graph);
}

/* Running statistics move once a step, by the mean over the micro-batches. */
static void test_running_statistics(void **state) {
  (void)state;
  static struct batch batch;
  neap_graph *graph = build(BATCH / 2, true);
  float wanted[16] = {0}, got[16], one[16];
  neap_session *halves = open_session(graph, (neap_session_options){.micro_batches = 2}, NEAP_BUDGET_MAX);
  draw(&batch, 1);
  step(halves, &batch, BATCH / 2);
  const int32_t index = find_variable(halves, "norm1.running_mean");
  ASSERT_OK(neap_session_read(halves, index, got));
  for (int half = 0; half < 2; half++) { /* each alone, from the beginning */
    neap_session *s = open_session(graph, (neap_session_options){0}, NEAP_BUDGET_MAX);
    memcpy(neap_session_input(s, "image"), batch.images + half * BATCH / 2 * PIXELS,
           BATCH / 2 * PIXELS * sizeof(float));
    memcpy(neap_session_input(s, "label"), batch.labels, BATCH / 2 * sizeof(int32_t));
    ASSERT_OK(neap_session_step(s, 0, NULL));
    ASSERT_OK(neap_session_read(s, index, one));
    for (int c = 0; c < 16; c++) wanted[c] += one[c] / 2;
    neap_session_free(s);
  }
  for (int c = 0; c < 16; c++) assert_true(fabsf(wanted[c] - got[c]) <= 1e-6f);
  neap_session_free(halves);
  neap_graph_free(graph);
}

/* What is half done cannot be kept. */
static void test_refusals(void **state) {
  (void)state;
  char digest[65];
  neap_graph *graph = build(4, false);
  neap_session *s = open_session(graph, (neap_session_options){.micro_batches = 3}, NEAP_BUDGET_MAX);
  ASSERT_OK(neap_session_step(s, 0.1f, NULL));
  assert_int_equal(neap_session_digest(s, digest), NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), "2 of its 3 micro-batches"));
  assert_int_equal(neap_session_save(s, "/tmp/neap-none"), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_micro_step(s, 0.1f, 1.5f, NULL), NEAP_INVALID_ARGUMENT);
  ASSERT_OK(neap_session_evaluate(s, NULL));
  ASSERT_OK(neap_session_step(s, 0.1f, NULL));
  ASSERT_OK(neap_session_step(s, 0.1f, NULL));
  ASSERT_OK(neap_session_digest(s, digest));
  neap_session_free(s);
  const neap_session_options negative = {.micro_batches = -1};
  assert_int_equal(neap_session_create(graph, &negative, NULL, &s), NEAP_INVALID_ARGUMENT);
  neap_graph_free(graph);
}

int run_test_micro_batches(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_plans),
                                     cmocka_unit_test(test_running_statistics),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
