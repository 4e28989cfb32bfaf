/* States of a shared prefix: the least of all placements, equal gaps for equal weights, refusals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "neap_plan.h"
#include "step_families.h"
#include "testing.h"

enum { LONGEST = 14 };

/* Returns the mean by its definition: each request looks for its own last state. */
static double repeated_by_definition(const double *weights, int64_t length, unsigned chosen) {
  double sum = 0, tokens = 0;
  for (int64_t t = 0; t <= length; t++) {
    int64_t from = t;
    while (from > 0 && !(chosen >> (from - 1) & 1)) from--;
    sum += weights[t];
    tokens += weights[t] * (double)(t - from);
  }
  return tokens / sum;
}

static double least_of_all(const double *weights, int64_t length, int states) {
  double least = INFINITY;
  for (unsigned chosen = 0; chosen < 1u << length; chosen++)
    if (__builtin_popcount(chosen) <= states)
      least = fmin(least, repeated_by_definition(weights, length, chosen));
  return least;
}

static void test_least_of_all(void **state) {
  (void)state;
  uint32_t seed = 1;
  for (int i = 0; i < 200; i++) {
    double weights[LONGEST + 1];
    const int64_t length = 1 + (int64_t)draw(&seed, LONGEST);
    const int states = (int)draw(&seed, 6);
    for (int64_t t = 0; t <= length; t++) weights[t] = draw(&seed, 3) == 0 ? 0 : (double)draw(&seed, 100) / 7;
    weights[length] += 0.5;
    int64_t positions[8], count = -1;
    double repeated;
    ASSERT_OK(neap_cache_plan(weights, length, states, positions, &count, &repeated));
    unsigned chosen = 0;
    for (int64_t k = 0; k < count; k++) chosen |= 1u << (positions[k] - 1);
    assert_true(count <= states && count == __builtin_popcount(chosen));
    const double least = least_of_all(weights, length, states);
    assert_true(fabs(repeated - least) <= 1e-12 * (1 + least));
    assert_true(fabs(repeated - repeated_by_definition(weights, length, chosen)) <= 1e-12 * (1 + least));
  }
}

static void test_equal_weights(void **state) {
  (void)state;
  enum { LENGTH = 1000 };
  double weights[LENGTH + 1];
  for (int t = 0; t <= LENGTH; t++) weights[t] = 1;
  for (int states = 1; states < 40; states++) {
    int64_t positions[40], count, least = LENGTH, most = 0;
    double repeated;
    ASSERT_OK(neap_cache_plan(weights, LENGTH, states, positions, &count, &repeated));
    assert_int_equal(count, states);
    for (int64_t k = 0; k <= count; k++) {
      const int64_t gap = (k < count ? positions[k] : LENGTH + 1) - (k > 0 ? positions[k - 1] : 0);
      least = gap < least ? gap : least;
      most = gap > most ? gap : most;
    }
    assert_true(most - least <= 1);
  }
}

static void test_refusals(void **state) {
  (void)state;
  int64_t positions[2] = {1, 2}, count;
  double repeated;
  static const double good[] = {0, 1, 2}, none[] = {0, 0, 0}, negative[] = {1, -1, 1},
                      infinite[] = {1, INFINITY, 1};
  assert_int_equal(neap_cache_plan(good, 0, 1, positions, &count, &repeated), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_cache_plan(good, 2, -1, positions, &count, &repeated), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_cache_plan(none, 2, 1, positions, &count, &repeated), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_cache_plan(negative, 2, 1, positions, &count, &repeated), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_cache_plan(infinite, 2, 1, positions, &count, &repeated), NEAP_INVALID_ARGUMENT);
  assert_true(isnan(neap_cache_repeated(good, 2, (int64_t[]){2, 1}, 2)));
  assert_true(isnan(neap_cache_repeated(good, 2, (int64_t[]){3}, 1)));
  /* More states than tokens: each token that anything shares has one. */
  ASSERT_OK(neap_cache_plan(good, 2, 9, positions, &count, &repeated));
  assert_int_equal(count, 2);
  assert_true(repeated == 0);
}

int run_test_prefix_cache(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_least_of_all),
                                     cmocka_unit_test(test_equal_weights), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
