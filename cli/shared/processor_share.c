#include <sys/resource.h>

#include "shared/processor_share.h"

struct processor_sample sample_processors(double at) {
  struct rusage use;
  if (getrusage(RUSAGE_SELF, &use) != 0) return (struct processor_sample){0};
  return (struct processor_sample){.at = at,
                                   .processor = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                                                1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec),
                                   .taken = use.ru_nivcsw};
}

bool shares_processors(const struct processor_sample *first, const struct processor_sample *last, int threads,
                       double *had) {
  const double seconds = last->at - first->at;
  *had = seconds > 0 ? (last->processor - first->processor) / seconds : threads;
  return (double)(last->taken - first->taken) > 10 * threads * seconds && *had < 0.85 * threads;
}
