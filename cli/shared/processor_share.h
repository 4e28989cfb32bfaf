/* Finds out whether other processes use the processors for which a run's threads wait. */
#ifndef NEAP_CLI_PROCESSOR_SHARE_H
#define NEAP_CLI_PROCESSOR_SHARE_H

#include <stdbool.h>

struct processor_sample {
  double at, processor; /* seconds: of a clock that only goes forward, and of CPU time of all threads */
  long taken;           /* involuntary context switches */
};

/* Returns the numbers of this process at this time, `at`; zeros if the system does not tell them. */
struct processor_sample sample_processors(double at);

/* Returns whether `threads` threads, of which none sleeps for long, were sent away from their processors
 * again and again between two samples and got less than their time. `had` gets the processors that they got.
 * Threads that wait for each other spin; where others run, too, they spin in place of those for which they
 * wait. */
bool shares_processors(const struct processor_sample *first, const struct processor_sample *last, int threads,
                       double *had);

#endif
