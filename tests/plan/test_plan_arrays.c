/* Plans from plain arrays: one that was planned comes back the same and is valid; what is wrong in it is for
 * the checker to find, and what is no plan at all is refused. */
#include "random_step.h"

#include <stdlib.h>

#define ASSERT_OK(call)                                                                                      \
  do {                                                                                                       \
    if ((call) != NEAP_OK) fail_msg("%s: %s", #call, neap_error_message());                                  \
  } while (0)

struct copy {
  neap_plan_arrays arrays;
  neap_placement *instances;
  int32_t *schedule;
};

/* What can be asked of a plan is all that its arrays have. */
static struct copy copy_of(const neap_step *step, const neap_plan *plan) {
  struct copy copy;
  neap_plan_info info;
  neap_instance *instances;
  neap_check_result result;
  int64_t count, length;
  neap_plan_describe(plan, &info);
  ASSERT_OK(neap_plan_check(step, plan, &result));
  ASSERT_OK(neap_plan_instances(step, plan, &instances, &count));
  const int32_t *schedule = neap_plan_schedule(plan, &length);
  copy.instances = calloc((size_t)count + 1, sizeof *copy.instances);
  copy.schedule = calloc((size_t)length + 1, sizeof *copy.schedule);
  assert_true(copy.instances != NULL && copy.schedule != NULL);
  memcpy(copy.schedule, schedule, (size_t)length * sizeof *schedule);
  for (int64_t i = 0; i < count; i++)
    copy.instances[i] =
        (neap_placement){instances[i].first, instances[i].tensor, instances[i].offset, instances[i].bytes};
  /* Recomputed is what was made before, and nothing else that is no workspace. */
  for (int64_t i = 0; i < count; i++) {
    bool again = false;
    for (int64_t k = 0; k < i; k++)
      again = again || (instances[k].tensor >= 0 && instances[k].tensor == instances[i].tensor);
    assert_int_equal(instances[i].kind == NEAP_KIND_RECOMPUTED, again);
  }
  free(instances);
  copy.arrays = (neap_plan_arrays){.graph = info.graph,
                                   .planner = info.planner,
                                   .schedule = copy.schedule,
                                   .length = length,
                                   .instances = copy.instances,
                                   .instance_count = count,
                                   .resident_bytes = info.resident_bytes,
                                   .live_peak_bytes = result.live_peak_bytes,
                                   .arena_bytes = info.arena_bytes,
                                   .cost = info.cost,
                                   .base_cost = info.base_cost};
  return copy;
}

static void copy_free(struct copy *copy) {
  free(copy->instances);
  free(copy->schedule);
}

static void refused(const neap_step *step, const struct copy *copy, const char *rule) {
  neap_plan *plan;
  neap_check_result result;
  ASSERT_OK(neap_plan_create(&copy->arrays, &plan));
  assert_int_equal(neap_plan_check(step, plan, &result), NEAP_INVALID_PLAN);
  assert_false(result.valid);
  if (strstr(result.reason, rule) == NULL) fail_msg("the reason is '%s', not '%s'", result.reason, rule);
  neap_plan_free(plan);
}

static neap_plan *plan_of(const neap_step *step) {
  neap_plan *plan;
  ASSERT_OK(neap_plan_make(step, NEAP_BUDGET_MIN, "evict", NULL, &plan));
  return plan;
}

static void test_round_trip(void **state) {
  (void)state;
  for (uint32_t seed = 0; seed < 20; seed++) {
    struct neap_step *step = random_step((enum family)(seed % FAMILY_COUNT), 12, seed);
    neap_plan *plan = plan_of(step), *again;
    struct copy copy = copy_of(step, plan);
    neap_plan_info info, other;
    ASSERT_OK(neap_plan_create(&copy.arrays, &again));
    copy.schedule[0] = -1; /* it has copies */
    copy.instances[0].at = -1;
    expect_valid(step, again);
    neap_plan_describe(plan, &info);
    neap_plan_describe(again, &other);
    assert_string_equal(info.graph, other.graph);
    assert_string_equal(info.planner, other.planner);
    assert_int_equal(info.peak_bytes, other.peak_bytes);
    assert_int_equal(info.length, other.length);
    assert_int_equal(info.recomputed, other.recomputed);
    assert_true(info.cost == other.cost && info.base_cost == other.base_cost);
    copy_free(&copy);
    neap_plan_free(plan);
    neap_plan_free(again);
    neap_step_free(step);
  }
}

static void test_broken(void **state) {
  (void)state;
  struct neap_step *step = random_step(FAMILY_CHAIN, 12, 1);
  neap_plan *plan = plan_of(step);
  struct copy copy = copy_of(step, plan);
  neap_placement *second = &copy.instances[1];
  const neap_placement kept = *second;
  second->offset = copy.instances[0].offset; /* the second node reads what the first makes */
  assert_true(copy.instances[0].bytes > 0 && kept.bytes > 0);
  refused(step, &copy, "overlap");
  *second = kept;
  second->offset = copy.arrays.arena_bytes;
  refused(step, &copy, "");
  second->offset = UINT64_MAX - 1;
  refused(step, &copy, "");
  *second = kept;
  second->tensor = INT32_MIN;
  refused(step, &copy, "");
  *second = kept;
  copy.schedule[0] = INT32_MAX;
  refused(step, &copy, "");
  copy.schedule[0] = 0;
  copy.arrays.live_peak_bytes++;
  refused(step, &copy, "peak_bytes");
  copy.arrays.live_peak_bytes--;
  copy.arrays.instance_count--;
  refused(step, &copy, "");
  copy.arrays.instance_count = 0;
  copy.arrays.length = 0;
  copy.arrays.graph = copy.arrays.planner = NULL;
  refused(step, &copy, "");
  copy_free(&copy);
  neap_plan_free(plan);
  neap_step_free(step);
}

static void test_no_plan(void **state) {
  (void)state;
  static const int32_t schedule[1] = {0};
  neap_plan *plan = NULL;
  assert_int_equal(neap_plan_create(NULL, &plan), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_plan_create(&(neap_plan_arrays){.length = 1}, &plan), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_plan_create(&(neap_plan_arrays){.length = -1, .schedule = schedule}, &plan),
                   NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_plan_create(&(neap_plan_arrays){.instance_count = 1}, &plan), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_plan_create(&(neap_plan_arrays){.length = INT32_MAX, .schedule = schedule}, &plan),
                   NEAP_TOO_LARGE);
  assert_null(plan);
}

int run_test_plan_arrays(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_broken),
      cmocka_unit_test(test_no_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
