#include "base/stop.h"

#include <stddef.h>

const volatile int *stop_request = NULL;

neap_status stop_check(void) {
  return stop_is_requested() ? neap_fail(NEAP_INTERRUPTED, "stopped on request") : NEAP_OK;
}

const volatile int *stop_listen(const volatile int *request) {
  const volatile int *before = stop_request;
  stop_request = request;
  return before;
}
