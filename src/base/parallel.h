/* Independent tasks side by side, and how many threads kernels have. */
#ifndef NEAP_BASE_PARALLEL_H
#define NEAP_BASE_PARALLEL_H

#include <omp.h>

#include "base/status.h"

/* Threads for this many tasks, at least 1: no more than the caller may use (OMP_NUM_THREADS, or its
 * processors), and 1 where it is itself one of several and OpenMP nests no further. */
static inline int threads_for(int tasks) {
  const bool nests = omp_get_active_level() < omp_get_max_active_levels();
  const int most = nests ? omp_get_max_threads() : 1;
  if (tasks > most) return most;
  return tasks > 0 ? tasks : 1;
}

/* The first failure of `count` tasks, with its message. */
static inline neap_status status_of_tasks(const struct ending *each, int count) {
  for (int i = 0; i < count; i++) TRY(ending_tell(&each[i]));
  return NEAP_OK;
}

/* OpenMP's settings for the parallel regions that a thread begins. */
struct team {
  int threads, dynamic;
};

/* Returns the number of threads that a number asks for: 0 is one for each processor. */
int team_size(int threads);

/* From here to team_restore() parallel regions of the calling thread have just this many threads: kernels
 * divide their sums and their workspaces by them, so that more would write beyond and fewer give other bits.
 * `*former` is how it was. NEAP_INVALID_ARGUMENT: it is no number of threads, or OpenMP would give fewer
 * here; then nothing has changed. */
neap_status team_set(int threads, struct team *former);
void team_restore(const struct team *former);

/* NEAP_UNSUPPORTED: the calling thread, or those of its parallel regions where there are several `threads`,
 * have stacks that are too small for kernels and libraries, which would end the process by a signal. */
neap_status team_check_stacks(int threads);

#endif
