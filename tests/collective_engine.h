/* What every engine must do, by its `run`, which connects `size` ranks and runs their work. */
#ifndef NEAP_TESTS_COLLECTIVE_ENGINE_H
#define NEAP_TESTS_COLLECTIVE_ENGINE_H

#include "collective_ranks.h"

static void run(int size, rank_work *work, struct rank *ranks);

static void all_succeed(rank_work *work) {
  static const int sizes[] = {1, 2, 3, 4, 8};
  struct rank ranks[MOST_RANKS];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    run(sizes[i], work, ranks);
    assert_all_ok(sizes[i], ranks);
  }
}

static void all_fail(int size, rank_work *work, neap_status status, const char *message, int except) {
  struct rank ranks[MOST_RANKS];
  run(size, work, ranks);
  assert_all_fail(size, ranks, status, message, except);
}

static void test_random_calls(void **state) {
  (void)state;
  all_succeed(call_at_random);
}

static void test_parts(void **state) {
  (void)state;
  all_succeed(divide);
}

static void test_barriers(void **state) {
  (void)state;
  all_succeed(meet_often);
}

static void test_early_close(void **state) {
  (void)state;
  for (int i = 0; i < 15; i++)
    all_fail(4, leave_early, NEAP_IO_FAILED,
             "collective: rank 2 closed its connection while another rank called", 2);
}

#endif
