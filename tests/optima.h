/* Exact optima of small steps, for tests: a failure of the search fails the test. */
#ifndef NEAP_TESTS_OPTIMA_H
#define NEAP_TESTS_OPTIMA_H

#include "exhaustive.h"
#include "step/lower_bound.h"
#include "testing.h"

enum { STATE_LIMIT = 1000000 };

static inline void expect_done(neap_status status) {
  if (status != NEAP_OK) print_error("%s\n", neap_error_message());
  assert_int_equal(status, NEAP_OK);
}

static inline uint64_t least_peak(const neap_step *step) {
  uint64_t peak = 0;
  bool proven;
  expect_done(exhaustive_least_peak(step, plan_lower_bound(step), STATE_LIMIT, &peak, &proven));
  assert_true(proven);
  return peak;
}

#endif
