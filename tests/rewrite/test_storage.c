/* A tensor kept in 16 bits: the network trains, takes less memory, has the same bits with every plan, and
 * goes on from a file as if it had not stopped. */
#include <math.h>
#include <unistd.h>

#include "base/half.h"
#include "session_help.h"

enum { BATCH = 16, CLASSES = 5, STEPS = 4 };

/* Two layers whose activation between them is cast and cast back. NEAP_F32: not. */
static neap_graph *build(neap_dtype storage) {
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("storage");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, 16, 16});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  for (int layer = 0; layer < 3; layer++) {
    x = neap_conv(b, x, (neap_conv_options){.filters = 32, .size = 3, .padding = 1});
    if (storage != NEAP_F32) x = neap_cast(b, x, storage);
    x = neap_silu(b, x); /* whose gradient keeps its input, in 16 bits */
    if (storage != NEAP_F32) x = neap_cast(b, x, NEAP_F32);
  }
  x = neap_linear(b, neap_global_average_pool(b, x), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static neap_session *open_session(const neap_graph *graph, uint64_t budget) {
  neap_session *s = NULL;
  /* evict plans at once: what the least is does not matter here. */
  const neap_session_options options = {
      .budget = budget, .planner = "evict", .momentum = 0.9f, .threads = 2, .seed = 3};
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

static void check_storage(neap_dtype storage, uint64_t keep_all_of_f32) {
  neap_graph *graph = build(storage);
  neap_session *everything = open_session(graph, NEAP_BUDGET_MAX),
               *least = open_session(graph, NEAP_BUDGET_MIN), *resumed = open_session(graph, NEAP_BUDGET_MIN);
  char file[] = "/tmp/neap-storage-XXXXXX";
  const int descriptor = mkstemp(file);
  assert_true(descriptor >= 0);
  close(descriptor);
  const struct run_result first = run_steps(everything, STEPS, 0.05f, CLASSES);
  const struct run_result second = run_steps(least, STEPS, 0.05f, CLASSES);
  assert_string_equal(first.digest, second.digest);
  assert_true(second.memory.planned_peak < first.memory.planned_peak);
  assert_true(first.memory.planned_peak < keep_all_of_f32);
  ASSERT_OK(neap_session_save(everything, file));
  ASSERT_OK(neap_session_load(resumed, file));
  const struct run_result further = run_steps(everything, STEPS, 0.05f, CLASSES),
                          again = run_steps(resumed, STEPS, 0.05f, CLASSES);
  assert_string_equal(further.digest, again.digest);
  neap_session_free(everything);
  neap_session_free(least);
  neap_session_free(resumed);
  neap_graph_free(graph);
  unlink(file);
}

static void test_storage(void **state) {
  (void)state;
  neap_graph *graph = build(NEAP_F32);
  neap_session *s = open_session(graph, NEAP_BUDGET_MAX);
  const struct run_result plain = run_steps(s, STEPS, 0.05f, CLASSES);
  neap_session_free(s);
  neap_graph_free(graph);
  check_storage(NEAP_BF16, plain.memory.planned_peak);
  check_storage(NEAP_F16, plain.memory.planned_peak);
}

/* A network stored in 16 bits, norms and all: it takes less memory, has the same bits with every plan, and
 * goes on from a file, whose variables are of their own types. */
static void test_precision(void **state) {
  (void)state;
  neap_graph *graph = NULL;
  ASSERT_OK(build_named("wrn-10-1", &(neap_model_options){.batch = 8, .classes = CLASSES}, &graph));
  uint64_t plain = 0;
  for (int k = 0; k < 3; k++) {
    const neap_dtype precision = k == 0 ? NEAP_F32 : k == 1 ? NEAP_BF16 : NEAP_F16;
    neap_session_options options = {.budget = NEAP_BUDGET_MAX,
                                    .planner = "evict",
                                    .momentum = 0.9f,
                                    .threads = 2,
                                    .seed = 3,
                                    .precision = precision};
    neap_session *everything = NULL, *least = NULL, *resumed = NULL;
    ASSERT_OK(neap_session_create(graph, &options, NULL, &everything));
    options.budget = NEAP_BUDGET_MIN;
    ASSERT_OK(neap_session_create(graph, &options, NULL, &least));
    ASSERT_OK(neap_session_create(graph, &options, NULL, &resumed));
    const struct run_result first = run_steps(everything, STEPS, 0.05f, CLASSES),
                            second = run_steps(least, STEPS, 0.05f, CLASSES);
    assert_string_equal(first.digest, second.digest);
    if (k == 0) plain = first.memory.planned_peak;
    if (k > 0) assert_true((double)first.memory.planned_peak < 0.75 * (double)plain);
    neap_variable weight;
    ASSERT_OK(neap_session_variable(everything, 0, &weight));
    assert_int_equal(weight.dtype, precision);
    char file[] = "/tmp/neap-storage-XXXXXX";
    const int descriptor = mkstemp(file);
    assert_true(descriptor >= 0);
    close(descriptor);
    ASSERT_OK(neap_session_save(everything, file));
    ASSERT_OK(neap_session_load(resumed, file));
    const struct run_result further = run_steps(everything, STEPS, 0.05f, CLASSES),
                            again = run_steps(resumed, STEPS, 0.05f, CLASSES);
    assert_string_equal(further.digest, again.digest);
    unlink(file);
    neap_session_free(everything);
    neap_session_free(least);
    neap_session_free(resumed);
  }
  neap_graph_free(graph);
}

/* The two neighbours of a number, each as often as it is near; what a type holds stays, large numbers
 * saturate. */
static void test_random_rounding(void **state) {
  (void)state;
  static const float numbers[] = {1.001f, -3.1415927f, 0.3333f, 1e-6f, -2.5e-7f, 6e-8f, 65519, 1000.3f};
  for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
    for (int type = 0; type < 2; type++) {
      const float x = numbers[n];
      double sum = 0, least = INFINITY, most = -INFINITY;
      for (uint32_t random = 0; random < 65536; random++) {
        const double y = type == 0 ? (double)bf16_to_float(bf16_from_float_randomly(x, random))
                                   : (double)f16_to_float(f16_from_float_randomly(x, random));
        sum += y / 65536;
        least = fmin(least, y);
        most = fmax(most, y);
      }
      if (type == 1 && x > 65504) {
        assert_true(most == 65504);
        continue;
      }
      assert_true(least <= (double)x && (double)x <= most);
      if (!(fabs(sum - (double)x) <= (most - least) * 1e-3)) fail_msg("%g is %g in the mean", (double)x, sum);
    }
  for (uint32_t bits = 0; bits < 65536; bits++) /* what can be held */
    for (uint32_t random = 0; random < 65536; random += 21845) {
      if ((bits & 0x7C00) != 0x7C00)
        assert_int_equal(f16_from_float_randomly(f16_to_float((uint16_t)bits), random), bits);
      if ((bits & 0x7F80) != 0x7F80)
        assert_int_equal(bf16_from_float_randomly(bf16_to_float((uint16_t)bits), random), bits);
    }
  assert_true(isinf(f16_to_float(f16_from_float_randomly(INFINITY, 65535))));
  assert_true(isnan(bf16_to_float(bf16_from_float_randomly(NAN, 65535))));
  assert_int_equal(bf16_from_float_randomly(3.4028235e38f, 65535), 0x7F7F);
}

int run_test_storage(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_storage), cmocka_unit_test(test_precision),
                                     cmocka_unit_test(test_random_rounding)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
