/* Kusumoto's two planners on networks of the zoo: the exact one is at least as good as the approximate one,
 * whose lower sets are among its own. */
#include "models_by_name.h"
#include "neap.h"
#include "plan/planners.h"
#include "step/lower_bound.h"
#include "step/simulate.h"
#include "testing.h"

static const struct planner_options options = {0};

/* Peak and cost of a row's schedule; false: it finds none within the budget. */
static bool plan(const neap_step *step, const char *row, uint64_t budget, struct simulation *score) {
  struct schedule schedule = {0};
  const neap_status status = planner_find(row)->plan(step, budget, &options, &schedule);
  assert_true(status == NEAP_OK || status == NEAP_OVER_BUDGET);
  if (status == NEAP_OK) {
    assert_int_equal(simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, score), NEAP_OK);
    assert_true(score->peak_bytes <= budget);
  }
  schedule_free(&schedule);
  return status == NEAP_OK;
}

static void test_exact_against_approximate(void **state) {
  (void)state;
  static const char *const names[] = {"lenet", "wrn-10-2", "preresnet-20", "resnet18", "vgg16", "unet"};
  enum { BUDGETS = 8 };
  int met = 0, met_by_exact_alone = 0, cheaper = 0;
  for (size_t m = 0; m < sizeof names / sizeof *names; m++) {
    neap_graph *graph;
    neap_step *step;
    struct simulation all, approximate, exact;
    assert_int_equal(build_named(names[m], &(neap_model_options){.batch = 8}, &graph), NEAP_OK);
    assert_int_equal(neap_step_from_graph(graph, &(neap_session_options){.threads = 2}, &step), NEAP_OK);
    neap_graph_free(graph);
    assert_true(plan(step, "keep-all", UINT64_MAX, &all));
    const uint64_t least = plan_lower_bound(step);
    for (int b = 1; b < BUDGETS; b++) {
      const uint64_t budget = least + (all.peak_bytes - least) * (uint64_t)b / BUDGETS;
      const bool exact_meets = plan(step, "kusumoto-exact", budget, &exact);
      if (plan(step, "kusumoto", budget, &approximate)) {
        assert_true(exact_meets);
        assert_true(exact.cost <= approximate.cost);
        cheaper += exact.cost < approximate.cost;
        met++;
      } else {
        met_by_exact_alone += exact_meets;
      }
    }
    neap_step_free(step);
  }
  print_message("kusumoto meets %d budgets, of which the exact planner is cheaper at %d; it alone meets %d\n",
                met, cheaper, met_by_exact_alone);
  assert_true(met > 0 && cheaper + met_by_exact_alone > 0);
}

int run_test_zoo_lower_sets(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact_against_approximate)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
