/* Independent tasks side by side. */
#ifndef NEAP_BASE_PARALLEL_H
#define NEAP_BASE_PARALLEL_H

#include <omp.h>

/* Threads for so many tasks, at least 1: no more than the caller may use (OMP_NUM_THREADS, or its
 * processors). */
static inline int threads_for(int tasks) {
  const int most = omp_get_max_threads();
  if (tasks > most) return most;
  return tasks > 0 ? tasks : 1;
}

#endif
