/* States that are prepared: y = x + h, h = tanh(W s) made of another input when it is asked for. */
#include <math.h>

#include "session_help.h"

enum { ROWS = 3, WIDTH = 5, INNER = 4000 };

/* `wide`: what prepares has much more in memory at once than what predicts; else the other way round. */
static neap_graph *build(bool wide) {
  const int64_t dims[] = {ROWS, WIDTH};
  neap_graph *graph;
  neap_builder *b = neap_builder_create("prepared");
  neap_tensor x = neap_input(b, "x", NEAP_F32, 2, dims), s = neap_input(b, "s", NEAP_F32, 2, dims);
  const neap_tensor h = neap_state(b, "h", NEAP_F32, 2, dims),
                    ones = neap_parameter(b, "ones", 2, (int64_t[]){1, INNER},
                                          (neap_parameter_options){.initial = NEAP_INITIAL_ONE}),
                    one =
                        neap_sum(b, neap_matmul(b, neap_slice(b, wide ? s : x, 1, 0, 1), ones, false, false),
                                 (int[]){1}, 1, true),
                    added = neap_scale(b, one, 0, 0);
  if (wide)
    s = neap_add(b, s, added);
  else
    x = neap_add(b, x, added);
  neap_output(b, "y", neap_add(b, x, h));
  neap_prepare(b, h, neap_tanh(b, neap_linear(b, s, WIDTH, false)));
  ASSERT_OK(neap_builder_finish(b, -1, &graph));
  neap_builder_free(b);
  return graph;
}

static void fill(neap_session *session, const char *name, float first) {
  float *data = neap_session_input(session, name);
  assert_non_null(data);
  for (int i = 0; i < ROWS * WIDTH; i++) data[i] = first + (float)i / 16;
}

/* y is x of `x` and what `s` prepares; without `prepared` h is 0. */
static void check(neap_session *session, const float *w, float x, float s, bool prepared) {
  float y[ROWS * WIDTH];
  ASSERT_OK(neap_session_predict(session));
  ASSERT_OK(neap_session_output(session, "y", NULL, y));
  for (int i = 0; i < ROWS * WIDTH; i++) {
    double sum = 0;
    for (int k = 0; k < WIDTH; k++)
      sum += (double)w[i % WIDTH * WIDTH + k] * ((double)s + (i / WIDTH * WIDTH + k) / 16.0);
    const double expected = (double)x + i / 16.0 + (prepared ? tanh(sum) : 0);
    assert_true(fabs((double)y[i] - expected) <= 1e-5);
  }
}

static void find_weight(neap_session *session, float *w) {
  for (int32_t v = 0; v < neap_session_variable_count(session); v++) {
    neap_variable variable;
    ASSERT_OK(neap_session_variable(session, v, &variable));
    if (variable.kind == NEAP_VARIABLE_PARAMETER && variable.elements == WIDTH * WIDTH)
      ASSERT_OK(neap_session_read(session, v, w));
  }
}

/* Predictions read what was prepared last, whatever the inputs are since; the memory is what the larger part
 * takes, and no byte less will do. */
static void test_prepare(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    neap_session_options options = {.threads = 1, .backend = i % 2 ? NEAP_REFERENCE : NEAP_CPU, .seed = 1};
    neap_graph *graph = build(i / 2);
    neap_session *session;
    neap_memory memory;
    float w[WIDTH * WIDTH] = {0};
    uint64_t least = 0;
    options.budget = 1;
    assert_int_equal(neap_session_create(graph, &options, &least, &session), NEAP_OVER_BUDGET);
    options.budget = least - 1;
    assert_int_equal(neap_session_create(graph, &options, NULL, &session), NEAP_OVER_BUDGET);
    options.budget = least;
    ASSERT_OK(neap_session_create(graph, &options, NULL, &session));
    find_weight(session, w);
    fill(session, "x", 2);
    fill(session, "s", -1);
    check(session, w, 2, -1, false);
    ASSERT_OK(neap_session_prepare(session));
    float y[ROWS * WIDTH];
    assert_int_equal(neap_session_output(session, "y", NULL, y), NEAP_INVALID_ARGUMENT);
    check(session, w, 2, -1, true);
    fill(session, "s", 0.5f);
    fill(session, "x", -3);
    check(session, w, -3, -1, true);
    ASSERT_OK(neap_session_prepare(session));
    check(session, w, -3, 0.5f, true);
    neap_session_memory(session, &memory);
    assert_int_equal(memory.planned_peak, least);
    assert_int_equal(memory.measured_peak, least);
    assert_true(memory.arena >= ROWS * INNER * sizeof(float));
    neap_session_free(session);
    neap_graph_free(graph);
  }
}

/* Such a graph only predicts, and has no plan in a file. */
static void test_what_is_refused(void **state) {
  (void)state;
  neap_session *session;
  neap_graph *graph = build(true);
  assert_int_equal(
      neap_session_create(graph, &(neap_session_options){.plan_file = "plan.json"}, NULL, &session),
      NEAP_UNSUPPORTED);
  neap_graph_free(graph);
}

int run_test_prepare(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_prepare), cmocka_unit_test(test_what_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
