/* Sessions of several processes as threads of one. */
#ifndef NEAP_TESTS_ON_THREADS_H
#define NEAP_TESTS_ON_THREADS_H

#include <pthread.h>

#include "session_help.h"

enum { MOST_THREADS = 8 };

/* Runs work(runs[r]) for each of `size` runs of `bytes` bytes on a thread of its own, and returns when all
 * have ended. */
static inline void on_threads(int size, void *(*work)(void *), void *runs, size_t bytes) {
  pthread_t threads[MOST_THREADS];
  assert_true(size <= MOST_THREADS);
  for (int r = 0; r < size; r++)
    assert_int_equal(pthread_create(&threads[r], NULL, work, (char *)runs + (size_t)r * bytes), 0);
  for (int r = 0; r < size; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
}

static inline void close_all(int size, const neap_collective *ranks) {
  for (int r = 0; r < size; r++) ranks[r].close(ranks[r].self);
}

#endif
