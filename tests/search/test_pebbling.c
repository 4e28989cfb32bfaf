/* The search for the least memory against exhaustive search, on random steps of all families. */
#include <stdlib.h>

#include "effort.h"
#include "exhaustive.h"
#include "search/pebbling.h"
#include "step/lower_bound.h"
#include "step/simulate.h"
#include "step_families.h"
#include "testing.h"

enum { STATES = 50000, WORK = 100000000 };

static bool found_within(const neap_step *step, uint64_t peak, bool *searched) {
  struct schedule schedule = {0};
  struct simulation score;
  int64_t work = WORK;
  bool found;
  assert_int_equal(pebble(step, peak - step->resident_bytes, &work, &schedule, &found), NEAP_OK);
  *searched = work > 0;
  if (found) {
    assert_int_equal(simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score), NEAP_OK);
    assert_true(score.peak_bytes <= peak);
  } else {
    assert_int_equal(schedule.nodes.count, 0);
  }
  schedule_free(&schedule);
  return found;
}

/* The cheapest schedule within the peak costs what exhaustive search says. */
static bool is_cheapest(const neap_step *step, uint64_t peak) {
  struct exhaustive_result best = {0};
  struct schedule schedule = {0};
  struct simulation score = {0};
  int64_t work = WORK;
  bool found;
  assert_int_equal(exhaustive_search(step, peak, EXHAUSTIVE_LEAST_COST, STATES, &best), NEAP_OK);
  assert_int_equal(pebble_cheapest(step, peak - step->resident_bytes, &work, &schedule, &found), NEAP_OK);
  if (found) {
    assert_int_equal(simulate(step, schedule.nodes.data, (int32_t)schedule.nodes.count, &score), NEAP_OK);
    assert_true(score.peak_bytes <= peak);
  }
  const bool compared = best.proven && work > 0;
  if (compared) assert_int_equal(found, best.feasible);
  if (compared && found) assert_true(score.cost == best.cost); /* whole numbers */
  schedule_free(&best.schedule);
  schedule_free(&schedule);
  return compared;
}

/* It finds the least peak that there is, and nothing below. */
static void test_against_exhaustive_search(void **state) {
  (void)state;
  int compared = 0, whole = 0, cheapest = 0;
  for (int i = 0; i < shorten(400); i++) {
    const struct step_shape shape = {.family = (enum step_family)(i % STEP_FAMILY_COUNT),
                                     .nodes = 5 + i / STEP_FAMILY_COUNT % 14,
                                     .seed = (uint32_t)i + 1,
                                     .plain = i % 4 == 0};
    neap_step *step;
    uint64_t least = 0;
    bool proven = false, searched;
    assert_int_equal(step_of_family(&shape, &step), NEAP_OK);
    assert_int_equal(exhaustive_least_peak(step, plan_lower_bound(step), STATES, &least, &proven), NEAP_OK);
    if (proven) {
      compared++;
      assert_true(found_within(step, least, &searched));
      assert_false(found_within(step, least - 1, &searched));
      whole += searched;
      cheapest += is_cheapest(step, least) && is_cheapest(step, least + least / 8);
    }
    neap_step_free(step);
  }
  print_message("%d steps, %d of them searched whole, in %d for the cheapest\n", compared, whole, cheapest);
  assert_true(compared > shorten(300) && whole > compared / 2 && cheapest > compared / 2);
}

/* Where the work is too little nothing is found, and nothing breaks. */
static void test_little_work(void **state) {
  (void)state;
  const struct step_shape shape = {.family = STEP_LAYERED, .nodes = 60, .seed = 7, .plain = true};
  neap_step *step;
  struct schedule schedule = {0};
  int64_t work = 1;
  bool found;
  assert_int_equal(step_of_family(&shape, &step), NEAP_OK);
  assert_int_equal(pebble(step, plan_lower_bound(step), &work, &schedule, &found), NEAP_OK);
  assert_false(found);
  assert_true(work <= 1);
  neap_step_free(step);
}

int run_test_pebbling(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_exhaustive_search),
                                     cmocka_unit_test(test_little_work)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
