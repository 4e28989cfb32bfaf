/* Elementary functions of doubles: beside the C library's in long double, and bits that are recorded, which
 * every machine must give. */
#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "base/random.h"
#include "testing.h"

/* Returns the distance to the exact value in units of the last place. */
static double ulps(double got, long double exact) {
  const double near = (double)exact, unit = nextafter(fabs(near), INFINITY) - fabs(near);
  return got == near ? 0 : (double)(fabsl((long double)got - exact) / (long double)unit);
}

static double uniform(uint64_t i, double least, double most) {
  uint32_t word[4];
  random_philox(7, 0, i, word);
  return least + (most - least) * ((double)word[0] * 0x1p-32 + (double)word[1] * 0x1p-64);
}

static void test_accuracy(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 200000; i++) {
    const double x = uniform(i, -700, 700), size = natural_exponential(uniform(i, -600, 600)),
                 near = uniform(i, 0.5, 2), angle = uniform(i, -12, 12), far = uniform(i, -1e6, 1e6);
    assert_true(ulps(natural_exponential(x), expl((long double)x)) <= 1.5);
    assert_true(ulps(natural_logarithm(size), logl((long double)size)) <= 1.5);
    assert_true(ulps(natural_logarithm(near), logl((long double)near)) <= 1.5);
    assert_true(fabs(sine(angle) - (double)sinl((long double)angle)) <= 0x1p-52);
    assert_true(fabs(cosine(angle) - (double)cosl((long double)angle)) <= 0x1p-52);
    assert_true(fabs(sine(far) - (double)sinl((long double)far)) <= 0x1p-52);
    assert_true(fabs(cosine(far) - (double)cosl((long double)far)) <= 0x1p-52);
    assert_true(fabs(power(near, x / 100) / (double)powl((long double)near, (long double)(x / 100)) - 1) <=
                0x1p-49);
    assert_true(fabs(power(near, floor(x)) / (double)powl((long double)near, (long double)floor(x)) - 1) <=
                0x1p-42);
  }
}

static void test_limits(void **state) {
  (void)state;
  assert_true(natural_exponential(-INFINITY) == 0 && natural_exponential(INFINITY) == INFINITY);
  assert_true(natural_exponential(-745.2) == 0 && natural_exponential(709.8) == INFINITY);
  assert_true(natural_exponential(-744) == exp(-744) && natural_exponential(0) == 1);
  assert_true(natural_logarithm(0) == -INFINITY && natural_logarithm(INFINITY) == INFINITY &&
              natural_logarithm(1) == 0);
  assert_true(isnan(natural_logarithm(-1)) && isnan(natural_logarithm(NAN)) &&
              isnan(natural_exponential(NAN)));
  assert_true(natural_logarithm(5e-324) == log(5e-324));
  assert_true(isnan(sine(INFINITY)) && isnan(cosine(NAN)) && sine(0) == 0 && cosine(0) == 1);
  assert_true(power(2, 10) == 1024 && power(-3, 3) == -27 && power(2, -2) == 0.25 && power(7, 0) == 1);
  assert_true(fabs(sine(1e9) - sin(1e9)) < 1e-7);
}

static void test_recorded(void **state) {
  (void)state;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 20000; i++) {
    const double x = uniform(i, -20, 20), size = natural_exponential(x),
                 values[] = {size,
                             natural_logarithm(size + 1),
                             sine(x),
                             cosine(100 * x),
                             power(size, 0.3),
                             power(0.99, floor(size))};
    uint64_t bits[6];
    memcpy(bits, values, sizeof bits);
    for (int k = 0; k < 6; k++) sum = sum * 6364136223846793005u + bits[k];
  }
  assert_int_equal(sum, 0xec67ea4f537cc32a);
}

int run_test_elementary(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_accuracy), cmocka_unit_test(test_limits),
                                     cmocka_unit_test(test_recorded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
