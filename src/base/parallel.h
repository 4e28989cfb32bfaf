/* Independent tasks side by side. */
#ifndef NEAP_BASE_PARALLEL_H
#define NEAP_BASE_PARALLEL_H

#include <omp.h>

#include "base/status.h"

/* Threads for so many tasks, at least 1: no more than the caller may use (OMP_NUM_THREADS, or its
 * processors). */
static inline int threads_for(int tasks) {
  const int most = omp_get_max_threads();
  if (tasks > most) return most;
  return tasks > 0 ? tasks : 1;
}

/* The first failure of `count` tasks. Its message may be another thread's, so it is put again, in general
 * terms. */
static inline neap_status status_of_tasks(const neap_status *each, int count) {
  for (int i = 0; i < count; i++)
    if (each[i] != NEAP_OK) return neap_fail(each[i], "planning: %s", neap_status_text(each[i]));
  return NEAP_OK;
}

#endif
