/* The search against the simulator: whatever it does, its schedule is valid and costs and needs what it says.
 */
#include "effort.h"
#include "random_step.h"

#include <math.h>

#include "search/search.h"
#include "step/simulate.h"

static int steps(void) { return quick_pass() ? 20 : 200; }

/* What it says is true of the schedule that it gives, which is tidied. */
static void expect_true(struct search *search) {
  const neap_step *step = search->timeline.step;
  struct schedule schedule = {0};
  struct simulation score;
  assert_int_equal(search_result(search, &schedule), NEAP_OK);
  assert_int_equal(simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score), NEAP_OK);
  assert_true(fabs(score.cost - search->timeline.cost) < 1e-9 * score.cost);
  assert_int_equal(score.peak_bytes, step->resident_bytes + (uint64_t)timeline_peak(&search->timeline));
  if (search->timeline.excess == 0)
    assert_true(score.peak_bytes <= step->resident_bytes + (uint64_t)search->timeline.limit);
  schedule_free(&schedule);
}

static void test_search(void **state) {
  (void)state;
  const int64_t work = 40000;
  int met = 0, mended = 0, smaller = 0;
  for (int i = 0; i < steps(); i++) {
    neap_step *step = random_step((enum family)(i % FAMILY_COUNT), 10 + i % 80, (uint32_t)i + 1);
    if (i % 4 == 3) step = with_restorers(step, false, (uint32_t)i);
    struct schedule start = {0};
    for (int32_t v = 0; v < step->node_count; v++) assert_int_equal(vector_push(&start.nodes, v), NEAP_OK);
    struct simulation score;
    assert_int_equal(simulate(step, start.nodes.data, step->node_count, &score), NEAP_OK);
    const uint64_t kept = score.peak_bytes - step->resident_bytes,
                   limit = kept / 100 * (60 + (uint64_t)(i % 40));
    struct search *search;
    assert_int_equal(search_create(step, limit, &start, (uint32_t)i + 1, &search), NEAP_OK);
    search->radial = i % 2 == 1;
    assert_int_equal(search_descend(search, work), NEAP_OK);
    /* Tidying makes nothing worse. */
    const int64_t excess = search->timeline.excess;
    const double cost = search->timeline.cost;
    const uint64_t area = search->timeline.area;
    assert_int_equal(search_tidy(search), NEAP_OK);
    assert_true(search->timeline.excess <= excess && search->timeline.cost <= cost * (1 + 1e-12));
    assert_true((int64_t)(search->timeline.area - area) <= 0);
    smaller += search->timeline.area != area;
    expect_true(search);
    assert_int_equal(search_rebuild(search, work, 0, false), NEAP_OK);
    expect_true(search);
    if (search->timeline.excess == 0) {
      met++;
      /* A little less: what is over it is mended, and never at the cost of more over it. */
      struct search *tighter;
      struct schedule found = {0};
      assert_int_equal(search_result(search, &found), NEAP_OK);
      assert_int_equal(search_create(step, (uint64_t)timeline_peak(&search->timeline) / 100 * 98, &found,
                                     (uint32_t)i + 1, &tighter),
                       NEAP_OK);
      const int64_t over = tighter->timeline.excess;
      assert_int_equal(search_mend(tighter, work), NEAP_OK);
      assert_true(tighter->timeline.excess <= over);
      mended += over > 0 && tighter->timeline.excess == 0;
      expect_true(tighter);
      search_free(tighter);
      schedule_free(&found);
    }
    search_free(search);
    schedule_free(&start);
    neap_step_free(step);
  }
  assert_true(met > steps() / 2 && mended > steps() / 4 && smaller > steps() / 10);
}

int run_test_search(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_search)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
