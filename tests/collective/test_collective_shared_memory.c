/* Ranks that share a region of memory, here as threads of one process, so that sanitizers see all of them. */
#include "collective_engine.h"

#include "collective/shared_memory.h"

static void run(int size, rank_work *work, struct rank *ranks) {
  neap_collective collectives[MOST_RANKS];
  struct shared_region *region;
  assert_int_equal(shared_memory_map(size, &region), NEAP_OK);
  for (int r = 0; r < size; r++) assert_int_equal(shared_memory_connect(region, r, &collectives[r]), NEAP_OK);
  run_ranks(size, collectives, work, ranks);
  shared_memory_unmap(region);
}

/* Sizes around a chunk, a receiver's ring and the whole outbox. */
static neap_status call_with_large_pieces(const neap_collective *c, int *shared) {
  (void)shared;
  const int others = c->size > 1 ? c->size - 1 : 1;
  TRY(case_random_calls(c, 11, 4, 64 << 10));
  TRY(case_random_calls(c, 12, 4, (uint64_t)(OUTBOX_BYTES / others / 64 * 64)));
  return case_random_calls(c, 13, 1, OUTBOX_BYTES);
}

static void test_large_pieces(void **state) {
  (void)state;
  all_succeed(call_with_large_pieces);
}

static void test_calls_that_differ(void **state) {
  (void)state;
  all_fail(3, other_size, NEAP_INVALID_ARGUMENT,
           "collective: rank 1 sends 5 bytes to rank 2, which expects 7; sizes have to agree", -1);
  all_fail(3, other_call, NEAP_INVALID_ARGUMENT, "; all ranks have to make the same calls", -1);
  all_fail(3, other_parts, NEAP_INVALID_ARGUMENT, "collective: rank 2 sends 5 bytes to rank ", -1);
}

/* A rank that died while it recorded its failure does not keep others from knowing of its death. */
static void test_death(void **state) {
  (void)state;
  struct shared_region *region;
  int rank = -1;
  assert_int_equal(shared_memory_map(4, &region), NEAP_OK);
  assert_int_equal(shared_memory_failure(region, &rank), NEAP_OK);
  shared_memory_fail(region, 2, NEAP_OVER_BUDGET, "the first");
  shared_memory_fail(region, 1, NEAP_INTERNAL, "the second");
  shared_memory_fail_dead(region, 2, NEAP_IO_FAILED, "its death");
  assert_int_equal(shared_memory_failure(region, &rank), NEAP_OVER_BUDGET);
  assert_string_equal(neap_error_message(), "the first");
  assert_int_equal(rank, 2);
  shared_memory_unmap(region);
}

static void test_sizes(void **state) {
  (void)state;
  struct shared_region *region;
  assert_int_equal(shared_memory_map(0, &region), NEAP_INVALID_ARGUMENT);
  assert_int_equal(shared_memory_map(SHARED_MOST_RANKS + 1, &region), NEAP_INVALID_ARGUMENT);
  assert_string_equal(neap_error_message(), "processes: their number must be from 1 to 128 (got 129)");
  shared_memory_unmap(NULL);
  shared_memory_close(NULL);
}

int run_test_collective_shared_memory(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_calls), cmocka_unit_test(test_parts),
      cmocka_unit_test(test_large_pieces), cmocka_unit_test(test_barriers),
      cmocka_unit_test(test_early_close),  cmocka_unit_test(test_calls_that_differ),
      cmocka_unit_test(test_death),        cmocka_unit_test(test_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
