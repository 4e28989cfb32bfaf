/* Runs the ranks of an engine as threads of the test. */
#ifndef COLLECTIVE_RANKS_H
#define COLLECTIVE_RANKS_H

#include <pthread.h>
#include <stdio.h>

#include "collective_cases.h"
#include "testing.h"

enum { MOST_RANKS = 8 };

/* What a rank does. `*shared` belongs to all ranks and begins with 0. */
typedef neap_status rank_work(const neap_collective *, int *shared);

struct rank {
  neap_collective collective;
  rank_work *work;
  int *shared;
  struct ending ending;
};

static void *run_rank(void *context) {
  struct rank *rank = context;
  ending_keep(&rank->ending, rank->work(&rank->collective, rank->shared));
  rank->collective.close(rank->collective.self);
  return NULL;
}

/* Each of `size` connected ranks does the work and closes. */
static inline void run_ranks(int size, const neap_collective *collectives, rank_work *work,
                             struct rank *ranks) {
  pthread_t threads[MOST_RANKS];
  int shared = 0;
  for (int r = 0; r < size; r++) {
    ranks[r] = (struct rank){collectives[r], work, &shared, {0}};
    assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
  }
  for (int r = 0; r < size; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
}

static inline void assert_all_ok(int size, const struct rank *ranks) {
  for (int r = 0; r < size; r++)
    if (ranks[r].ending.status != NEAP_OK) fail_msg("rank %d of %d: %s", r, size, ranks[r].ending.message);
}

/* Every rank, but one whose work ends well, failed so. Another rank's part of the message may follow
 * `message`. */
static inline void assert_all_fail(int size, const struct rank *ranks, neap_status status,
                                   const char *message, int except) {
  for (int r = 0; r < size; r++) {
    if (r == except) continue;
    if (strstr(ranks[r].ending.message, message) == NULL) fail_msg("rank %d: %s", r, ranks[r].ending.message);
    assert_int_equal(ranks[r].ending.status, status);
  }
}

static inline neap_status call_at_random(const neap_collective *c, int *shared) {
  (void)shared;
  for (uint64_t seed = 1; seed < 3; seed++) TRY(case_random_calls(c, seed, 25, 1000));
  return NEAP_OK;
}

static inline neap_status divide(const neap_collective *c, int *shared) {
  (void)shared;
  return case_parts(c, 7, 1000);
}

static inline neap_status meet_often(const neap_collective *c, int *shared) {
  return case_barriers(c, shared, 30);
}

static inline neap_status leave_early(const neap_collective *c, int *shared) {
  (void)shared;
  TRY(c->barrier(c->self));
  return c->rank == 2 ? NEAP_OK : c->barrier(c->self);
}

static inline neap_status other_size(const neap_collective *c, int *shared) {
  return (void)shared, case_other_size(c);
}
static inline neap_status other_call(const neap_collective *c, int *shared) {
  return (void)shared, case_other_call(c);
}
static inline neap_status other_parts(const neap_collective *c, int *shared) {
  return (void)shared, case_other_parts(c);
}

#endif
