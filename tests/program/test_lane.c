/* Jobs of a lane run in the order in which they were started; a failure ends the jobs behind it, reaches who
 * waits, and is forgotten when the lane is settled. */
#include <unistd.h>

#include "program/lane.h"
#include "session_help.h"

enum { JOBS = 500 };

struct record {
  int64_t numbers[JOBS];
  int32_t count; /* read by the test once it has waited */
  int64_t fails; /* number of the job that fails; -1: none */
};

static neap_status note(void *context, const struct lane_job *job) {
  struct record *r = context;
  if (job->number % 97 == 0) usleep(2000);
  if (job->number == r->fails) return neap_fail(NEAP_IO_FAILED, "job %lld", (long long)job->number);
  r->numbers[r->count++] = job->number;
  return NEAP_OK;
}

static void start(struct lane *lane, struct record *r, int64_t number) {
  lane_start(lane, &(struct lane_job){.run = note, .context = r, .number = number});
}

/* More jobs than a lane holds at once. */
static void test_order(void **state) {
  (void)state;
  struct record r = {.fails = -1};
  struct lane *lane;
  ASSERT_OK(lane_create(&lane));
  for (int64_t i = 0; i < JOBS; i++) {
    start(lane, &r, i);
    if (i % 100 != 99) continue;
    ASSERT_OK(lane_wait(lane, (uint64_t)i + 1));
    assert_int_equal(r.count, i + 1);
  }
  assert_int_equal(lane_started(lane), JOBS);
  for (int64_t i = 0; i < JOBS; i++) assert_int_equal(r.numbers[i], i);
  assert_true(lane_waited(lane) > 0);
  lane_free(lane);
}

static void test_failure(void **state) {
  (void)state;
  struct record r = {.fails = 3};
  struct lane *lane;
  ASSERT_OK(lane_create(&lane));
  for (int64_t i = 0; i < 10; i++) start(lane, &r, i);
  assert_int_equal(lane_wait(lane, 10), NEAP_IO_FAILED);
  assert_string_equal(neap_error_message(), "job 3");
  assert_int_equal(r.count, 3); /* those behind it did not run */
  lane_settle(lane);
  start(lane, &r, 10);
  ASSERT_OK(lane_wait(lane, 11));
  assert_int_equal(r.numbers[3], 10);
  lane_free(lane);
}

/* Ending a lane waits for what was started. */
static void test_end(void **state) {
  (void)state;
  struct record r = {.fails = -1};
  struct lane *lane;
  ASSERT_OK(lane_create(&lane));
  for (int64_t i = 97; i < 110; i++) start(lane, &r, i);
  lane_free(lane);
  assert_int_equal(r.count, 13);
}

int run_test_lane(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_failure),
                                     cmocka_unit_test(test_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
