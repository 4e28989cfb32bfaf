/* Timed steps: every call of a step is counted once, FLOPs are those that the operators have, and the weights
 * are those that untimed steps give. */
#include "session_help.h"

#include "program/program.h"
#include "speed/speed.h"

static const neap_speed speed = {.threads = 1, .f32_flops = 1e9, .memory_bytes = 1e8};
static const float rate = 0.01f;

static neap_session *open_model(int32_t micro_batches, neap_graph **graph) {
  const neap_model_options shape = {.batch = 2, .image = {3, 8, 8}};
  const neap_session_options options = {
      .budget = NEAP_BUDGET_MAX, .momentum = 0.9f, .threads = 1, .seed = 3, .micro_batches = micro_batches};
  neap_session *session;
  ASSERT_OK(build_named("wrn-10-1", &shape, graph));
  ASSERT_OK(neap_session_create(*graph, &options, NULL, &session));
  fill_inputs(session, 1, 10);
  return session;
}

static neap_kernels sum_of(const neap_kernels *kernels, int32_t count) {
  neap_kernels sum = {0};
  for (int32_t i = 0; i < count; i++) {
    assert_true(kernels[i].seconds >= 0 && kernels[i].limit_seconds > 0 && kernels[i].count > 0);
    assert_true(i == 0 || kernels[i].seconds <= kernels[i - 1].seconds);
    sum.count += kernels[i].count;
    sum.seconds += kernels[i].seconds;
    sum.flops += kernels[i].flops;
    sum.bytes += kernels[i].bytes;
    sum.limit_seconds += kernels[i].limit_seconds;
  }
  return sum;
}

static void check_sums(const neap_step_times *t, int64_t calls) {
  const neap_kernels kinds = sum_of(t->kinds, t->kind_count),
                     operators = sum_of(t->operators, t->operator_count);
  assert_int_equal(kinds.count, calls);
  assert_int_equal(operators.count, calls);
  assert_true(t->operator_count < t->kind_count && t->kind_count < calls);
  assert_float_equal(kinds.seconds / t->kernel_seconds, 1, 1e-9);
  assert_float_equal(operators.seconds / t->kernel_seconds, 1, 1e-9);
  assert_float_equal(kinds.limit_seconds / t->limit_seconds, 1, 1e-9);
  assert_float_equal(operators.limit_seconds / t->limit_seconds, 1, 1e-9);
  assert_float_equal(operators.flops / kinds.flops, 1, 1e-9);
  assert_float_equal(operators.bytes / kinds.bytes, 1, 1e-9);
  assert_true(t->step_seconds > 0);
}

static void test_sums(void **state) {
  (void)state;
  for (int32_t micro_batches = 1; micro_batches <= 3; micro_batches += 2) {
    neap_graph *graph;
    neap_session *session = open_model(micro_batches, &graph);
    neap_step_times *times;
    ASSERT_OK(neap_session_time_steps(session, &speed, rate, 4, &times));
    assert_int_equal(times->steps, 4);
    check_sums(times, micro_batches * session->programs[PROGRAM_STEP].program.length +
                          session->programs[PROGRAM_BEGIN].program.length +
                          session->programs[PROGRAM_END].program.length);
    neap_step_times_free(times);
    neap_session_free(session);
    neap_graph_free(graph);
  }
}

/* x [8, 5] through a layer of 7 to a loss: 2 * 8 * 5 * 7 FLOPs forward, as many for the weights. */
static void test_flops(void **state) {
  (void)state;
  const int64_t dims[] = {8, 5}, label_dims[] = {8};
  neap_builder *b = neap_builder_create("layer");
  neap_tensor x = neap_input(b, "x", NEAP_F32, 2, dims),
              label = neap_input(b, "label", NEAP_I32, 1, label_dims);
  x = neap_linear(b, x, 7, false);
  neap_graph *graph;
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  neap_session *session;
  neap_step_times *times;
  const neap_session_options kept = {.threads = 1, .budget = NEAP_BUDGET_MAX}; /* nothing is computed twice */
  ASSERT_OK(neap_session_create(graph, &kept, NULL, &session));
  fill_inputs(session, 1, 7);
  ASSERT_OK(neap_session_time_steps(session, &speed, rate, 1, &times));
  double flops = 0, limit = 0;
  bool named = false;
  for (int32_t i = 0; i < times->kind_count; i++) {
    const neap_kernels *k = &times->kinds[i];
    flops += k->flops;
    if (strcmp(k->op, "Linear") != 0) continue;
    named = strstr(k->operands, "8x5") != NULL && strstr(k->operands, "-> 8x7") != NULL;
    limit = k->limit_seconds;
  }
  assert_true(flops == 2 * 2 * 8 * 5 * 7);
  assert_true(named);
  const double bytes = 4 * (8 * 5 + 5 * 7 + 8 * 7);
  assert_float_equal(limit / (bytes / speed.memory_bytes), 1, 1e-9); /* more than 560 FLOPs take */
  neap_step_times_free(times);
  neap_session_free(session);
  neap_graph_free(graph);
}

static void test_same_weights(void **state) {
  (void)state;
  char digest[2][65];
  for (int timed = 0; timed < 2; timed++) {
    neap_graph *graph;
    neap_session *session = open_model(1, &graph);
    if (timed) {
      neap_step_times *times;
      ASSERT_OK(neap_session_time_steps(session, &speed, rate, 3, &times));
      neap_step_times_free(times);
    } else {
      for (int i = 0; i < 5; i++) ASSERT_OK(neap_session_step(session, rate, NULL));
    }
    ASSERT_OK(neap_session_step(session, rate, NULL)); /* and what follows is not timed any more */
    ASSERT_OK(neap_session_digest(session, digest[timed]));
    neap_session_free(session);
    neap_graph_free(graph);
  }
  assert_string_equal(digest[0], digest[1]);
}

static void test_every_kind_of_model(void **state) {
  (void)state;
  static const neap_bench_options cases[] = {
      {.model = "mlp", .shape = {.batch = 4}},
      {.model = "unet-4", .shape = {.batch = 1, .image = {3, 188, 188}}},
      {.model = "gpt-1x16x2", .shape = {.batch = 2, .length = 8}},
      {.model = "bert-1x16x2", .shape = {.batch = 2, .length = 8}},
      {.model = "lstm-1x8", .shape = {.batch = 2, .length = 4}},
      {.model = "lightconv-16", .shape = {.batch = 2, .length = 8}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    neap_bench_options options = cases[i];
    neap_bench_result result;
    options.session = (neap_session_options){.budget = NEAP_BUDGET_MAX, .threads = 1};
    options.steps = 1;
    ASSERT_OK(neap_bench(&options, &speed, &result));
    assert_int_equal(result.batch, options.shape.batch);
    assert_true(result.parameters > 0);
    assert_int_equal(result.times->steps, 1);
    assert_true(result.memory.measured_peak <= result.memory.planned_peak);
    neap_step_times_free(result.times);
  }
}

static void test_refusals(void **state) {
  (void)state;
  neap_graph *graph;
  neap_session *session = open_model(1, &graph);
  neap_step_times *times = NULL;
  neap_bench_result result;
  const neap_speed none = {0};
  assert_int_equal(neap_session_time_steps(session, &speed, rate, -1, &times), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_time_steps(session, &speed, rate, 1 << 30, &times), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_time_steps(session, &none, rate, 1, &times), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_time_steps(NULL, &speed, rate, 1, &times), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_time_steps(session, &speed, NAN, 1, &times), NEAP_INVALID_ARGUMENT);
  assert_null(times);
  assert_int_equal(neap_bench(&(neap_bench_options){.model = "none-1"}, &speed, &result),
                   NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_bench(&(neap_bench_options){0}, &speed, &result), NEAP_INVALID_ARGUMENT);
  neap_session_free(session);
  neap_graph_free(graph);
}

int run_test_time_steps(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),         cmocka_unit_test(test_flops),
      cmocka_unit_test(test_same_weights), cmocka_unit_test(test_every_kind_of_model),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
