/* Ranks that are threads of one process. */
#include "collective_engine.h"

#include "collective/threads.h"

static void run(int size, rank_work *work, struct rank *ranks) {
  neap_collective collectives[MOST_RANKS];
  assert_int_equal(threads_connect(size, collectives), NEAP_OK);
  run_ranks(size, collectives, work, ranks);
}

static void test_calls_that_differ(void **state) {
  (void)state;
  all_fail(3, other_size, NEAP_INVALID_ARGUMENT,
           "collective: rank 1 sends 5 bytes to rank 2, which expects 7; sizes have to agree", -1);
  all_fail(
      3, other_call, NEAP_INVALID_ARGUMENT,
      "collective: rank 0 calls barrier while rank 1 calls allgather; all ranks have to make the same calls",
      -1);
  all_fail(3, other_parts, NEAP_INVALID_ARGUMENT,
           "collective: rank 2 sends 5 bytes to rank 0, which expects 4; sizes have to agree", -1);
}

/* A rank that closes after its last call ends nobody's, and leaves the message of its thread. */
static void test_close(void **state) {
  (void)state;
  neap_collective ranks[2];
  assert_int_equal(threads_connect(0, ranks), NEAP_INVALID_ARGUMENT);
  assert_int_equal(threads_connect(2, ranks), NEAP_OK);
  (void)neap_fail(NEAP_INTERNAL, "of before");
  for (int r = 0; r < 2; r++) ranks[r].close(ranks[r].self);
  ranks[0].close(NULL);
  neap_collective_report(&ranks[0], NEAP_INTERNAL); /* of no engine with reports */
  neap_collective_report(NULL, NEAP_INTERNAL);
  assert_string_equal(neap_error_message(), "of before");
}

int run_test_collective_threads(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_calls),      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_barriers),          cmocka_unit_test(test_early_close),
      cmocka_unit_test(test_calls_that_differ), cmocka_unit_test(test_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
