/* A run has less than its processors where its threads are sent away again and again and get less than their
 * time: both. */
#include "shared/processor_share.h"
#include "testing.h"

/* Of two threads for ten seconds. */
static bool shares(double processor, long taken, double *had) {
  const struct processor_sample first = {.at = 3, .processor = 1, .taken = 5};
  const struct processor_sample last = {.at = 13, .processor = 1 + processor, .taken = 5 + taken};
  return shares_processors(&first, &last, 2, had);
}

static void test_two_samples(void **state) {
  (void)state;
  double had;
  assert_true(shares(12, 1000, &had));
  assert_float_equal(had, 1.2, 1e-9);
  assert_false(shares(19, 1000, &had)); /* sent away, but not for long */
  assert_false(shares(12, 100, &had));  /* waits for data: nobody sends it away */
  assert_false(shares(20, 0, &had));
}

/* Work takes processor time; two samples of one moment say nothing. */
static void test_this_process(void **state) {
  (void)state;
  const struct processor_sample first = sample_processors(1);
  struct processor_sample last = first;
  double had;
  assert_false(shares_processors(&first, &last, 1, &had));
  while (last.processor - first.processor < 0.05) last = sample_processors(2);
  assert_true(last.at == 2 && last.taken >= first.taken);
}

int run_test_processor_share(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_samples), cmocka_unit_test(test_this_process)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
