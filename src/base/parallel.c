#include "base/parallel.h"

#include <pthread.h>
#include <stdint.h>

/* OpenMP ends the process where the system has no more threads. */
enum { THREAD_LIMIT = 1024 };

int team_size(int threads) { return threads != 0 ? threads : omp_get_num_procs(); }

neap_status team_set(int threads, struct team *former) {
  RETURN_IF(threads < 0 || threads > THREAD_LIMIT, NEAP_INVALID_ARGUMENT,
            "threads: %d are asked for; 1 to %d are possible", threads, THREAD_LIMIT);
  const int size = team_size(threads), limit = omp_get_thread_limit();
  RETURN_IF(size > limit, NEAP_INVALID_ARGUMENT,
            "%d threads: OpenMP allows at most %d here (OMP_THREAD_LIMIT); ask for fewer", size, limit);
  RETURN_IF(size > 1 && omp_get_active_level() >= omp_get_max_active_levels(), NEAP_INVALID_ARGUMENT,
            "%d threads: OpenMP allows one inside a parallel region; call from outside of it, or ask for one",
            size);
  *former = (struct team){omp_get_max_threads(), omp_get_dynamic()};
  omp_set_num_threads(size);
  omp_set_dynamic(0);
  return NEAP_OK;
}

void team_restore(const struct team *former) {
  omp_set_num_threads(former->threads);
  omp_set_dynamic(former->dynamic);
}

/* Bytes that are left of the calling thread's stack; of all of it where `whole`. SIZE_MAX: not known. */
static size_t stack_left(bool whole) {
#if defined(__GLIBC__)
  pthread_attr_t attributes;
  void *begin;
  size_t size;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return SIZE_MAX;
  const int failed = pthread_attr_getstack(&attributes, &begin, &size);
  pthread_attr_destroy(&attributes);
  if (failed != 0) return SIZE_MAX;
  return whole ? size : (size_t)((uintptr_t)&attributes - (uintptr_t)begin);
#else
  (void)whole;
  return SIZE_MAX;
#endif
}

neap_status team_check_stacks(int threads) {
  /* oneDNN and SQLite were seen to take 80 KiB of the caller's, kernels of our own 40 KiB of a thread's. */
  static const size_t least = 128 << 10, least_of_others = 64 << 10;
  const size_t left = stack_left(false);
  RETURN_IF(left < least, NEAP_UNSUPPORTED,
            "the stack of this thread has %zu KiB left, but %zu are needed; enlarge it (ulimit -s)",
            left >> 10, least >> 10);
  if (threads < 2) return NEAP_OK;
  size_t others = SIZE_MAX;
#pragma omp parallel num_threads(2) reduction(min : others)
  if (omp_get_thread_num() > 0) others = stack_left(true);
  RETURN_IF(
      others < least_of_others, NEAP_UNSUPPORTED,
      "OpenMP's threads have stacks of %zu KiB, but %zu are needed; enlarge them (OMP_STACKSIZE, ulimit -s)",
      others >> 10, least_of_others >> 10);
  return NEAP_OK;
}
