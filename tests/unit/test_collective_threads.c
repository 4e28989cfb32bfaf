/* Ranks that are threads of one process. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "collective/threads.h"
#include "collective_cases.h"

enum { MOST_RANKS = 8 };

struct rank {
  neap_collective collective;
  neap_status (*work)(const neap_collective *, int *);
  int *shared;
  struct ending ending;
};

static void *run_rank(void *context) {
  struct rank *rank = context;
  ending_keep(&rank->ending, rank->work(&rank->collective, rank->shared));
  rank->collective.close(rank->collective.self);
  return NULL;
}

/* Each rank does the work and closes. */
static void run_ranks(int size, neap_status (*work)(const neap_collective *, int *), struct rank *ranks) {
  pthread_t threads[MOST_RANKS];
  neap_collective collectives[MOST_RANKS];
  int shared = 0;
  assert_int_equal(threads_connect(size, collectives), NEAP_OK);
  for (int r = 0; r < size; r++) {
    ranks[r] = (struct rank){collectives[r], work, &shared, {0}};
    assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
  }
  for (int r = 0; r < size; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
}

static void all_succeed(neap_status (*work)(const neap_collective *, int *)) {
  static const int sizes[] = {1, 2, 3, 4, 8};
  struct rank ranks[MOST_RANKS];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    run_ranks(sizes[i], work, ranks);
    for (int r = 0; r < sizes[i]; r++)
      if (ranks[r].ending.status != NEAP_OK)
        fail_msg("rank %d of %d: %s", r, sizes[i], ranks[r].ending.message);
  }
}

/* Every rank but those whose work is honest to its end gets this message. */
static void all_fail(int size, neap_status (*work)(const neap_collective *, int *), neap_status status,
                     const char *message, int except) {
  struct rank ranks[MOST_RANKS];
  run_ranks(size, work, ranks);
  for (int r = 0; r < size; r++) {
    if (r == except) continue;
    assert_int_equal(ranks[r].ending.status, status);
    assert_string_equal(ranks[r].ending.message, message);
  }
}

static neap_status call_at_random(const neap_collective *c, int *shared) {
  (void)shared;
  for (uint64_t seed = 1; seed < 4; seed++) TRY(case_random_calls(c, seed, 60, 1000));
  return NEAP_OK;
}

static neap_status meet_often(const neap_collective *c, int *shared) { return case_barriers(c, shared, 200); }

static void test_random_calls(void **state) {
  (void)state;
  all_succeed(call_at_random);
}

static void test_barriers(void **state) {
  (void)state;
  all_succeed(meet_often);
}

static neap_status leave_early(const neap_collective *c, int *shared) {
  (void)shared;
  TRY(c->barrier(c->self));
  return c->rank == 2 ? NEAP_OK : c->barrier(c->self);
}

static void test_early_close(void **state) {
  (void)state;
  for (int i = 0; i < 50; i++)
    all_fail(4, leave_early, NEAP_IO_FAILED,
             "collective: rank 2 closed its connection while another rank called", 2);
}

static neap_status other_size(const neap_collective *c, int *shared) {
  (void)shared;
  unsigned char bytes[64] = {0};
  neap_piece send[3] = {{bytes, 5}, {bytes, 5}, {bytes, 5}};
  neap_piece receive[3] = {{bytes + 16, 5}, {bytes + 32, 5}, {bytes + 48, 5}};
  if (c->rank == 2) receive[1].bytes = 7;
  return c->exchange(c->self, send, receive);
}

static neap_status other_call(const neap_collective *c, int *shared) {
  (void)shared;
  const uint64_t bytes[3] = {0};
  return c->rank == 1 ? c->allgather(c->self, NULL, bytes) : c->barrier(c->self);
}

static neap_status other_parts(const neap_collective *c, int *shared) {
  (void)shared;
  char all[16] = {0};
  const uint64_t bytes[3] = {4, 4, c->rank == 2 ? 5 : 4};
  return c->allgather(c->self, all, bytes);
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
  assert_string_equal(neap_error_message(), "of before");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_calls), cmocka_unit_test(test_barriers),
      cmocka_unit_test(test_early_close),  cmocka_unit_test(test_calls_that_differ),
      cmocka_unit_test(test_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
