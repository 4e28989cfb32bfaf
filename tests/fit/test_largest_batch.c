/* The largest batch that fits a budget: against planning every batch. */
#include <string.h>

#include "models_by_name.h"
#include "neap.h"
#include "testing.h"

static const char *const model = "wrn-10-1";
enum { BATCH = 12 };

/* What a planner asks for at this batch with this budget; 0: it does not fit. */
static uint64_t peak(int64_t batch, const neap_session_options *options) {
  const neap_model_options shape = {.batch = batch};
  neap_graph *graph;
  neap_step *step;
  neap_plan *plan;
  assert_int_equal(build_named(model, &shape, &graph), NEAP_OK);
  assert_int_equal(neap_step_from_graph(graph, options, &step), NEAP_OK);
  const neap_status status = neap_plan_make(step, options->budget, options->planner, NULL, &plan);
  neap_plan_info info = {0};
  if (status == NEAP_OK) {
    neap_plan_describe(plan, &info);
    neap_plan_free(plan);
  } else {
    assert_int_equal(status, NEAP_OVER_BUDGET);
  }
  neap_step_free(step);
  neap_graph_free(graph);
  return info.peak_bytes;
}

static int64_t largest(int64_t batch, const neap_session_options *options) {
  const neap_model_options shape = {.batch = batch};
  neap_model *opened;
  int64_t answer = -1;
  ASSERT_OK(neap_model_open(model, &opened));
  assert_int_equal(neap_largest_batch(opened, &shape, options, &answer), NEAP_OK);
  neap_model_close(opened);
  return answer;
}

static void test_every_answer_is_the_largest(void **state) {
  (void)state;
  neap_session_options options = {.planner = "keep-all", .momentum = 0.9f, .threads = 1};
  uint64_t needs[BATCH + 1];
  options.budget = NEAP_BUDGET_MIN;
  for (int64_t batch = 1; batch <= BATCH; batch++) needs[batch] = peak(batch, &options);
  for (int64_t batch = 0; batch <= BATCH; batch++) {
    options.budget = batch == 0 ? needs[1] - 1 : needs[batch];
    assert_int_equal(largest(BATCH, &options), batch);
  }
}

static void test_a_fraction_is_of_the_batch_that_was_asked_for(void **state) {
  (void)state;
  neap_session_options options = {.planner = "keep-all", .momentum = 0.9f, .threads = 1};
  options.budget = NEAP_BUDGET_MAX;
  const uint64_t everything = peak(BATCH, &options);
  options.budget = (uint64_t)(0.5 * (double)everything);
  const int64_t half = largest(BATCH, &options);
  assert_in_range(half, 1, BATCH - 1);
  options.budget = 0;
  options.budget_fraction = 0.5;
  assert_int_equal(largest(BATCH, &options), half);
}

static void test_what_is_refused(void **state) {
  (void)state;
  const neap_session_options options = {.budget = 1 << 20, .threads = 1};
  neap_model *opened;
  int64_t answer = -7;
  ASSERT_OK(neap_model_open(model, &opened));
  assert_int_equal(neap_largest_batch(opened, &(neap_model_options){.batch = 0}, &options, &answer),
                   NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), "batch"));
  neap_model_close(opened);
  assert_int_equal(neap_model_open("nothing", &opened), NEAP_INVALID_ARGUMENT);
  assert_null(opened);
  assert_int_equal(answer, -7); /* as it was */
}

int run_test_largest_batch(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_answer_is_the_largest),
      cmocka_unit_test(test_a_fraction_is_of_the_batch_that_was_asked_for),
      cmocka_unit_test(test_what_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
