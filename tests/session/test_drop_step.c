/* A step that is given up at any moment leaves the session as it was before the step, to the last bit; one
 * that may tear refuses to be saved until weights are loaded. */
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"
#include "effort.h"
#include "session/drop_step.h"
#include "session_help.h"

enum { MOST_TRIALS = 120, CLASSES = 10 };

static volatile int stop;

static void *request_later(void *context) {
  const int64_t *microseconds = context;
  usleep((useconds_t)*microseconds);
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  return NULL;
}

static neap_session *open_session(neap_graph **graph, int32_t micro_batches, bool dynamic) {
  const neap_model_options shape = {.batch = 8, .image = {3, 16, 16}};
  const neap_session_options options = {.budget = NEAP_BUDGET_MAX,
                                        .momentum = 0.9f,
                                        .threads = 2,
                                        .micro_batches = micro_batches,
                                        .dynamic_loss_scale = dynamic};
  neap_session *s;
  ASSERT_OK(build_named("wrn-10-1", &shape, graph));
  ASSERT_OK(neap_session_create(*graph, &options, NULL, &s));
  fill_inputs(s, 1, CLASSES);
  return s;
}

/* Micro-batch by micro-batch. */
static neap_status whole_step(neap_session *s) {
  neap_status status = NEAP_OK;
  do status = neap_session_step(s, 0.01f, NULL);
  while (status == NEAP_OK && s->micro_batch != 0);
  return status;
}

/* A step that is asked to stop after some time. */
static neap_status step_and_stop(neap_session *s, int64_t microseconds) {
  pthread_t thread;
  __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
  assert_int_equal(pthread_create(&thread, NULL, request_later, &microseconds), 0);
  const volatile int *before = stop_listen(&stop);
  const neap_status status = whole_step(s);
  stop_listen(before);
  pthread_join(thread, NULL);
  return status;
}

/* `early`: a step changes nothing at its beginning; else it may have to be finished always. */
static void check(int32_t micro_batches, bool dynamic, bool early) {
  const int trials = quick_pass() ? MOST_TRIALS / 4 : MOST_TRIALS;
  neap_graph *graph;
  neap_session *s = open_session(&graph, micro_batches, dynamic);
  const double begin = clock_seconds();
  ASSERT_OK(whole_step(s));
  const int64_t whole = (int64_t)(1e6 * (clock_seconds() - begin));
  int given_up = 0;
  for (int i = 0; i < trials; i++) {
    char was[65], is[65];
    ASSERT_OK(neap_session_digest(s, was));
    const uint64_t steps = session_steps(s);
    const neap_status status = step_and_stop(s, whole * i / trials);
    ASSERT_OK(neap_session_digest(s, is));
    if (status == NEAP_OK) {
      assert_int_equal(session_steps(s), steps + 1);
      continue;
    }
    assert_int_equal(status, NEAP_INTERRUPTED);
    assert_string_equal(was, is);
    assert_int_equal(session_steps(s), steps);
    assert_false(session_is_torn(s));
    given_up++;
  }
  assert_true(given_up > 0 || !early);
  neap_session_free(s);
  neap_graph_free(graph);
}

static void test_whole_batch(void **state) {
  (void)state;
  check(1, false, true);
}
static void test_micro_batches(void **state) {
  (void)state;
  check(3, false, false); /* gradients are added to the momentum itself */
}
static void test_sums_apart(void **state) {
  (void)state;
  check(3, true, true);
}

/* What is given up late, where that may be, can neither be saved nor be taken for whole. */
static void test_torn(void **state) {
  (void)state;
  const char *whole = "/tmp/neap-give-up-whole", *torn = "/tmp/neap-give-up-torn";
  const int trials = quick_pass() ? MOST_TRIALS / 4 : MOST_TRIALS;
  neap_graph *graph;
  neap_session *s = open_session(&graph, 1, false);
  const double begin = clock_seconds();
  ASSERT_OK(whole_step(s));
  const int64_t most = (int64_t)(1e6 * (clock_seconds() - begin));
  char was[65], is[65];
  ASSERT_OK(neap_session_save(s, whole));
  ASSERT_OK(neap_session_digest(s, was));
  session_may_tear(s, true);
  for (int i = trials; i > 0 && !session_is_torn(s); i--) {
    ASSERT_OK(neap_session_load(s, whole));
    const neap_status status = step_and_stop(s, most * i / trials);
    assert_true(status == NEAP_OK || status == NEAP_INTERRUPTED);
  }
  if (session_is_torn(s)) assert_int_equal(neap_session_save(s, torn), NEAP_INVALID_ARGUMENT);
  ASSERT_OK(neap_session_load(s, whole));
  assert_false(session_is_torn(s));
  ASSERT_OK(neap_session_digest(s, is));
  assert_string_equal(was, is);
  unlink(whole);
  neap_session_free(s);
  neap_graph_free(graph);
}

/* An evaluation after a complete step stops when it is asked to, and changes nothing. */
static void test_evaluation_stops(void **state) {
  (void)state;
  neap_graph *graph;
  neap_session *s = open_session(&graph, 1, false);
  neap_step_result result;
  session_may_tear(s, true);
  ASSERT_OK(whole_step(s));
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  const volatile int *before = stop_listen(&stop);
  assert_int_equal(neap_session_evaluate(s, &result), NEAP_INTERRUPTED);
  stop_listen(before);
  assert_false(session_is_torn(s));
  ASSERT_OK(whole_step(s));
  neap_session_free(s);
  neap_graph_free(graph);
}

int run_test_drop_step(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_batch), cmocka_unit_test(test_micro_batches),
                                     cmocka_unit_test(test_sums_apart), cmocka_unit_test(test_torn),
                                     cmocka_unit_test(test_evaluation_stops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
