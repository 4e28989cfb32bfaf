/* cmocka, with what it needs to be included before it, and the assertion that a call succeeds. */
#ifndef NEAP_TESTS_TESTING_H
#define NEAP_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"

#define ASSERT_OK(call)                                                                                      \
  do {                                                                                                       \
    if ((call) != NEAP_OK) fail_msg("%s: %s", #call, neap_error_message());                                  \
  } while (0)

#endif
