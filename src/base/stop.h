/* A request to stop that what takes long looks at now and then. */
#ifndef NEAP_BASE_STOP_H
#define NEAP_BASE_STOP_H

#include <stdbool.h>

#include "base/status.h"

/* What the caller of this thread's work may set to ask for its end; NULL: nobody. A parallel region whose
 * tasks may take long hands it on to its threads with copyin(stop_request). */
extern const volatile int *stop_request;
#pragma omp threadprivate(stop_request)

static inline bool stop_is_requested(void) {
  const volatile int *request = stop_request;
  return request != NULL && __atomic_load_n(request, __ATOMIC_RELAXED) != 0;
}

/* NEAP_INTERRUPTED once it is: to be forwarded at once. Costs less than a hundred instructions. */
neap_status stop_check(void);

/* From here on this thread's work ends at this request; gives the one before, for stop_listen in its turn. */
const volatile int *stop_listen(const volatile int *request);

#endif
