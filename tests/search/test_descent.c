/* The way down to the least: what is kept of many schedules against a list of all, and what Neap's own way
 * leads to against the simulator and the walk of evict. */
#include "effort.h"
#include "random_step.h"

#include <omp.h>

#include "search/evict.h"
#include "search/keep_all.h"
#include "search/neap_least.h"
#include "step/planner.h"

static int steps(void) { return quick_pass() ? 12 : 30; }

/* Lower and more expensive from rung to rung, and each what it says. */
static void expect_way_down(const neap_step *step, const struct descent *descent) {
  for (size_t i = 0; i < descent->rungs.count; i++) {
    const struct rung *rung = &descent->rungs.data[i];
    const struct simulation score = score_of(step, &rung->schedule);
    assert_true(score.peak_bytes == rung->peak_bytes && score.cost == rung->cost);
    assert_true(i == 0 || (rung->peak_bytes < rung[-1].peak_bytes && rung->cost > rung[-1].cost));
  }
}

enum { ADDED = 24 };

/* The cheapest of all that were added, for every peak among them and a byte less. */
static void expect_cheapest(const struct descent *descent, const struct simulation *added, int count) {
  for (int i = 0; i < 2 * count; i++) {
    const uint64_t peak = added[i / 2].peak_bytes - (uint64_t)(i % 2);
    double cost = INFINITY;
    for (int k = 0; k < count; k++)
      if (added[k].peak_bytes <= peak && added[k].cost < cost) cost = added[k].cost;
    const struct rung *rung = descent_within(descent, peak);
    assert_true(rung == NULL ? cost == INFINITY : rung->peak_bytes <= peak && rung->cost == cost);
  }
}

static void test_rungs(void **state) {
  (void)state;
  size_t most = 0;
  for (int i = 0; i < steps(); i++) {
    neap_step *step = random_step((enum family)(i % FAMILY_COUNT), 10 + i % 80, (uint32_t)i + 1);
    uint32_t random = (uint32_t)i + 11;
    struct descent descent = {0}, copy = {0};
    struct simulation added[ADDED];
    struct schedule kept = {0};
    const struct planner_options quick = {.effort = EFFORT_QUICK};
    assert_null(descent_least(&descent));
    assert_int_equal(plan_keep_all(step, UINT64_MAX, &quick, &kept), NEAP_OK);
    const uint64_t all = score_of(step, &kept).peak_bytes - step->resident_bytes;
    int count = 0;
    for (int k = 0; k < ADDED; k++) {
      struct schedule schedule = {0};
      const uint64_t budget = step->resident_bytes + all / 100 * (30 + draw(&random, 71));
      const neap_status status = plan_evict(step, budget, &quick, &schedule);
      assert_true(status == NEAP_OK || status == NEAP_OVER_BUDGET);
      if (status == NEAP_OK) {
        assert_int_equal(descent_add(&descent, step, &schedule), NEAP_OK);
        added[count++] = score_of(step, &schedule);
        expect_way_down(step, &descent);
        expect_cheapest(&descent, added, count);
      }
      schedule_free(&schedule);
    }
    assert_int_equal(descent_add_all(&copy, step, &descent), NEAP_OK);
    assert_int_equal(copy.rungs.count, descent.rungs.count);
    expect_cheapest(&copy, added, count);
    most = descent.rungs.count > most ? descent.rungs.count : most;
    descent_free(&copy);
    descent_free(&descent);
    schedule_free(&kept);
    neap_step_free(step);
  }
  assert_true(most >= 4);
}

/* From keeping everything; at its end evicting comes no lower, but for a fiftieth. The same with any number
 * of threads. */
static void test_way_down(void **state) {
  (void)state;
  const int threads = omp_get_max_threads();
  for (int i = 0; i < steps() / 6; i++) {
    neap_step *step = random_step((enum family)(i % FAMILY_COUNT), 20 + i * 5, (uint32_t)i + 501);
    struct descent descent = {0}, again = {0};
    struct schedule kept = {0}, evicted = {0};
    const struct planner_options quick = {.effort = EFFORT_QUICK};
    omp_set_num_threads(4);
    assert_int_equal(find_descent(step, 0, &descent), NEAP_OK);
    expect_way_down(step, &descent);
    assert_int_equal(plan_keep_all(step, UINT64_MAX, &quick, &kept), NEAP_OK);
    assert_true(descent.rungs.data[0].cost == score_of(step, &kept).cost);
    const uint64_t least = descent_least(&descent)->peak_bytes, values = least - step->resident_bytes;
    const neap_status status = plan_evict(step, least - values / 50 - 1, &quick, &evicted);
    assert_int_equal(status, NEAP_OVER_BUDGET);
    omp_set_num_threads(1);
    assert_int_equal(find_descent(step, 0, &again), NEAP_OK);
    omp_set_num_threads(threads);
    assert_int_equal(again.rungs.count, descent.rungs.count);
    for (size_t k = 0; k < again.rungs.count; k++) {
      const struct schedule *a = &again.rungs.data[k].schedule, *b = &descent.rungs.data[k].schedule;
      assert_int_equal(a->nodes.count, b->nodes.count);
      assert_memory_equal(a->nodes.data, b->nodes.data, a->nodes.count * sizeof *a->nodes.data);
    }
    descent_free(&descent);
    descent_free(&again);
    schedule_free(&kept);
    schedule_free(&evicted);
    neap_step_free(step);
  }
}

int run_test_descent(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rungs), cmocka_unit_test(test_way_down)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
