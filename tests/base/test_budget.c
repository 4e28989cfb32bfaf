/* Budgets as they are written. */
#include "neap.h"
#include "testing.h"

static void test_budgets_that_are_read(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
    double fraction;
  } budgets[] = {{"96MiB", 96 << 20, 0},
                 {"96 mib", 96 << 20, 0},
                 {"96M", 96 << 20, 0},
                 {"1.5 k", 1536, 0},
                 {"0.5GB", 500000000, 0},
                 {"1e3", 1000, 0},
                 {"100663296", 100663296, 0},
                 {"4611686018427389069", 4611686018427389069, 0}, /* no double is that */
                 {"min", NEAP_BUDGET_MIN, 0},
                 {"MAX", NEAP_BUDGET_MAX, 0},
                 {"Available", NEAP_BUDGET_AVAILABLE, 0},
                 {"80%", 0, 0.8},
                 {"12.5 %", 0, 0.125}};
  for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
    uint64_t bytes = 7;
    double fraction = 7;
    assert_int_equal(neap_budget_parse(budgets[i].text, &bytes, &fraction), NEAP_OK);
    assert_true(bytes == budgets[i].bytes);
    assert_true(fraction == budgets[i].fraction);
  }
}

static void test_budgets_that_are_refused(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      "0",
                                      "-1",
                                      "0.4",
                                      "nan",
                                      "inf",
                                      "96 MiBs",
                                      "MiB",
                                      "8EiB",
                                      "80%%",
                                      "0 %",
                                      "1e400",
                                      "9223372036854775808"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    uint64_t bytes = 7;
    double fraction = 7;
    assert_int_equal(neap_budget_parse(texts[i], &bytes, &fraction), NEAP_INVALID_ARGUMENT);
    assert_true(bytes == 7 && fraction == 7);
  }
}

/* A share is a number of bytes, never a word for one. */
static void test_shares(void **state) {
  (void)state;
  assert_true(neap_budget_share(0.5, 1000) == 500);
  assert_true(neap_budget_share(1e-30, 1000) == 1);
  assert_true(neap_budget_share(0.5, 0) == 1);
  const uint64_t most = neap_budget_share(1e300, 1000);
  assert_true(most > (uint64_t)1 << 62 && most != NEAP_BUDGET_MAX);
}

int run_test_budget(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_budgets_that_are_read),
                                     cmocka_unit_test(test_budgets_that_are_refused),
                                     cmocka_unit_test(test_shares)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
