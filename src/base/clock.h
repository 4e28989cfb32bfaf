/* The monotonic clock. */
#ifndef NEAP_BASE_CLOCK_H
#define NEAP_BASE_CLOCK_H

#include <stdbool.h>
#include <time.h>

static inline double clock_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns true if a moment of that clock has come; 0: it never comes. */
static inline bool clock_is_past(double deadline) { return deadline > 0 && clock_seconds() >= deadline; }

#endif
