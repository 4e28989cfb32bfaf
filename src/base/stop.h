/* Cancellation. Long-running code polls stop_check(). */
#ifndef NEAP_BASE_STOP_H
#define NEAP_BASE_STOP_H

#include <stdbool.h>

#include "base/status.h"

/* The flag that cancels this thread's work when it is not 0; NULL: nothing can. A parallel region whose
 * tasks may take long hands it on to its threads with copyin(stop_request). */
extern const volatile int *stop_request;
#pragma omp threadprivate(stop_request)

static inline bool stop_is_requested(void) {
  const volatile int *request = stop_request;
  return request != NULL && __atomic_load_n(request, __ATOMIC_RELAXED) != 0;
}

/* Returns NEAP_INTERRUPTED after a request, which the caller forwards at once. Costs less than a hundred
 * instructions. */
neap_status stop_check(void);

/* Sets the flag that cancels this thread's work; returns the previous one, to be restored by stop_listen. */
const volatile int *stop_listen(const volatile int *request);

#endif
