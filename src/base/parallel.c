#include "base/parallel.h"

/* OpenMP ends the process where the system has no more threads. */
enum { THREAD_LIMIT = 1024 };

int team_size(int threads) { return threads != 0 ? threads : omp_get_num_procs(); }

neap_status team_set(int threads, struct team *former) {
  RETURN_IF(threads < 0 || threads > THREAD_LIMIT, NEAP_INVALID_ARGUMENT,
            "%d threads: from 1 to %d can be asked for", threads, THREAD_LIMIT);
  const int size = team_size(threads), limit = omp_get_thread_limit();
  RETURN_IF(size > limit, NEAP_INVALID_ARGUMENT,
            "%d threads: OpenMP gives no more than %d here (OMP_THREAD_LIMIT); ask for no more", size, limit);
  RETURN_IF(size > 1 && omp_get_active_level() >= omp_get_max_active_levels(), NEAP_INVALID_ARGUMENT,
            "%d threads: inside a parallel region OpenMP gives one; call from outside of it, or ask for one",
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
