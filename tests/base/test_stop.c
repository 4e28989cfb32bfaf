/* Planning ends with NEAP_INTERRUPTED once it is asked to, wherever it is; what is planned afterwards is as
 * if nothing had been; nobody looks at a request whose planning has ended. */
#include "models_by_name.h"
#include "random_step.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ASSERT_OK(call)                                                                                      \
  do {                                                                                                       \
    if ((call) != NEAP_OK) fail_msg("%s: %s", #call, neap_error_message());                                  \
  } while (0)

struct request {
  volatile int *stop;
  double seconds; /* until it is made */
};

static void *make_request(void *context) {
  const struct request *request = context;
  const struct timespec pause = {(time_t)request->seconds,
                                 (long)(1e9 * (request->seconds - (double)(time_t)request->seconds))};
  nanosleep(&pause, NULL);
  *request->stop = 1;
  return NULL;
}

static struct neap_step *large_step(int32_t nodes) {
  const struct step_shape shape = {.family = STEP_LAYERED, .nodes = nodes, .seed = 3};
  neap_step *step;
  ASSERT_OK(step_of_family(&shape, &step));
  return step;
}

static uint64_t half_of(const neap_step *step) {
  uint64_t bytes;
  ASSERT_OK(neap_step_keep_all_bytes(step, &bytes));
  return neap_budget_share(0.6, bytes);
}

/* The search would go on for an hour: the test ends, so it was stopped. The request is gone afterwards. */
static void stop_after(const neap_step *step, uint64_t budget, const char *planner, double seconds) {
  volatile int *stop = calloc(1, sizeof(int));
  struct request request = {stop, seconds};
  pthread_t thread;
  neap_plan *plan = NULL;
  uint64_t smallest = 0;
  assert_non_null(stop);
  assert_int_equal(pthread_create(&thread, NULL, make_request, &request), 0);
  const neap_plan_options options = {.planner = planner, .seconds = 3600, .stop = stop};
  const neap_status status = neap_plan_make_with(step, budget, &options, &smallest, &plan);
  assert_int_equal(pthread_join(thread, NULL), 0);
  free((void *)stop);
  if (status != NEAP_INTERRUPTED) fail_msg("ended with %s", neap_status_text(status));
  assert_null(plan);
}

/* Planning in the middle of each of its parts. */
static void test_long_plan(void **state) {
  (void)state;
  static const double seconds[] = {0, 0.01, 0.05, 0.2, 0.8};
  struct neap_step *step = large_step(900);
  const uint64_t budget = half_of(step);
  for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) stop_after(step, budget, NULL, seconds[i]);
  neap_step_free(step);
}

/* A request that is there already: with every row, and for the least. */
static void test_before_it_begins(void **state) {
  (void)state;
  struct neap_step *step = random_step(FAMILY_CHAIN, 40, 1);
  const int stop = 1;
  neap_row row;
  for (int32_t i = 0; neap_planner_at(i, &row); i++)
    for (int least = 0; least < 2; least++) {
      neap_plan *plan = NULL;
      const neap_plan_options options = {.planner = row.name, .stop = &stop};
      const uint64_t budget = least ? NEAP_BUDGET_MIN : half_of(step);
      assert_int_equal(neap_plan_make_with(step, budget, &options, NULL, &plan), NEAP_INTERRUPTED);
      assert_null(plan);
    }
  neap_step_free(step);
}

static void expect_same(const neap_plan *a, const neap_plan *b) {
  int64_t length, other;
  const int32_t *x = neap_plan_schedule(a, &length), *y = neap_plan_schedule(b, &other);
  assert_int_equal(length, other);
  assert_memory_equal(x, y, (size_t)length * sizeof *x);
}

/* A request that is never made changes nothing, nor does one that was. */
static void test_no_trace(void **state) {
  (void)state;
  struct neap_step *step = random_step(FAMILY_DENSE, 60, 5);
  const uint64_t budget = half_of(step);
  const int never = 0;
  neap_plan *before, *with, *after;
  ASSERT_OK(neap_plan_make(step, budget, "auto", NULL, &before));
  ASSERT_OK(neap_plan_make_with(step, budget, &(neap_plan_options){.stop = &never}, NULL, &with));
  stop_after(step, budget, "neap", 0.01);
  ASSERT_OK(neap_plan_make(step, budget, "auto", NULL, &after));
  expect_same(before, with);
  expect_same(before, after);
  neap_plan_free(before);
  neap_plan_free(with);
  neap_plan_free(after);
  neap_step_free(step);
}

/* The threads that planned for a request that is gone now are lent to a caller's own parallel region. */
static void test_in_a_parallel_region(void **state) {
  (void)state;
  struct neap_step *step = large_step(300);
  stop_after(step, half_of(step), NULL, 0.3);
  int failures = 0;
#pragma omp parallel for num_threads(4) reduction(+ : failures)
  for (int i = 0; i < 8; i++) {
    neap_plan *plan;
    uint64_t bytes;
    neap_buffer buffers[] = {{.upper = 2, .size = 5}, {.lower = 1, .upper = 3, .size = 4}};
    neap_layout_result layout;
    neap_instance *instances = NULL;
    int64_t count;
    failures += neap_layout_solve(buffers, 2, 0, &layout) != NEAP_OK;
    failures += neap_step_keep_all_bytes(step, &bytes) != NEAP_OK;
    if (neap_plan_make(step, NEAP_BUDGET_MAX, NULL, NULL, &plan) != NEAP_OK) {
      failures++;
      continue;
    }
    failures += neap_plan_instances(step, plan, &instances, &count) != NEAP_OK;
    free(instances);
    neap_plan_free(plan);
  }
  assert_int_equal(failures, 0);
  neap_step_free(step);
}

/* By way of a session's options. */
static void test_session(void **state) {
  (void)state;
  neap_graph *graph;
  neap_session *session = NULL;
  const int stop = 1;
  ASSERT_OK(build_named("wrn-10-1", &(neap_model_options){.batch = 2}, &graph));
  const neap_session_options options = {.budget_fraction = 0.7, .plan_stop = &stop};
  assert_int_equal(neap_session_create(graph, &options, NULL, &session), NEAP_INTERRUPTED);
  assert_null(session);
  neap_graph_free(graph);
}

int run_test_stop(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_long_plan), cmocka_unit_test(test_before_it_begins),
      cmocka_unit_test(test_no_trace),  cmocka_unit_test(test_in_a_parallel_region),
      cmocka_unit_test(test_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
