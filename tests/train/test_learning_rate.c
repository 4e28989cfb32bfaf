#include <math.h>

#include "testing.h"
#include "train/learning_rate.h"

enum { STEPS = 1500, EPOCH = 500 };

static struct learning_rate make(const neap_train_options *options) {
  struct learning_rate rate;
  assert_int_equal(learning_rate_create(options, STEPS, EPOCH, &rate), NEAP_OK);
  return rate;
}

static void expect_at(const struct learning_rate *rate, int64_t step, double value) {
  assert_true(fabs(learning_rate_at(rate, step) - value) <= 1e-12);
}

static void test_constant(void **state) {
  (void)state;
  const struct learning_rate rate = make(&(neap_train_options){.learning_rate = 0.25});
  expect_at(&rate, 0, 0.25);
  expect_at(&rate, STEPS - 1, 0.25);
  const struct learning_rate usual = make(&(neap_train_options){0});
  expect_at(&usual, 3, 0.1);
  const struct learning_rate of_lion =
      make(&(neap_train_options){.learning_rate = NAN, .session.optimizer = NEAP_LION});
  expect_at(&of_lion, 3, 0.0001);
  const struct learning_rate zero = make(&(neap_train_options){.learning_rate = NEAP_ZERO});
  expect_at(&zero, 3, 0);
  const struct learning_rate drops_to_zero = make(&(neap_train_options){
      .learning_rate = 1, .schedule = NEAP_LR_STEP, .step_epochs = 0.5, .step_factor = NEAP_ZERO});
  expect_at(&drops_to_zero, EPOCH / 2 - 1, 1);
  expect_at(&drops_to_zero, EPOCH / 2, 0);
}

static void test_cosine(void **state) {
  (void)state;
  const struct learning_rate rate =
      make(&(neap_train_options){.learning_rate = 0.1, .schedule = NEAP_LR_COSINE});
  expect_at(&rate, 0, 0.1);
  expect_at(&rate, STEPS / 2, 0.05);
  expect_at(&rate, STEPS / 3, 0.075); /* cos 60 degrees = 1/2 */
  expect_at(&rate, STEPS * 2 / 3, 0.025);
  expect_at(&rate, STEPS, 0);
  for (int64_t step = 1; step < STEPS; step++)
    assert_true(learning_rate_at(&rate, step) < learning_rate_at(&rate, step - 1));
}

static void test_step(void **state) {
  (void)state;
  const struct learning_rate thirds =
      make(&(neap_train_options){.learning_rate = 1, .schedule = NEAP_LR_STEP});
  expect_at(&thirds, 0, 1);
  expect_at(&thirds, STEPS / 3 - 1, 1);
  expect_at(&thirds, STEPS / 3, 0.1);
  expect_at(&thirds, STEPS * 2 / 3 - 1, 0.1);
  expect_at(&thirds, STEPS * 2 / 3, 0.01);
  expect_at(&thirds, STEPS - 1, 0.01);
  const struct learning_rate halves = make(&(neap_train_options){
      .learning_rate = 1, .schedule = NEAP_LR_STEP, .step_epochs = 0.5, .step_factor = 0.5});
  expect_at(&halves, EPOCH / 2 - 1, 1);
  expect_at(&halves, EPOCH / 2, 0.5);
  expect_at(&halves, EPOCH * 2, 1.0 / 16);
}

static void test_warmup(void **state) {
  (void)state;
  const struct learning_rate rate = make(&(neap_train_options){.learning_rate = 0.8, .warmup_epochs = 0.5});
  expect_at(&rate, 0, 0.8 / (EPOCH / 2));
  expect_at(&rate, EPOCH / 4 - 1, 0.4);
  expect_at(&rate, EPOCH / 2 - 1, 0.8);
  expect_at(&rate, EPOCH / 2, 0.8);
  const struct learning_rate cosine =
      make(&(neap_train_options){.learning_rate = 0.8, .warmup_epochs = 0.5, .schedule = NEAP_LR_COSINE});
  expect_at(&cosine, 0, 0.8 / (EPOCH / 2));
  expect_at(&cosine, EPOCH / 2 - 1, 0.8); /* the rate that was asked for is reached */
  expect_at(&cosine, EPOCH / 2, 0.8);
  expect_at(&cosine, EPOCH / 2 + (STEPS - EPOCH / 2) / 2, 0.4);
  expect_at(&cosine, STEPS, 0);
  const struct learning_rate all =
      make(&(neap_train_options){.learning_rate = 1, .warmup_epochs = 5, .schedule = NEAP_LR_COSINE});
  expect_at(&all, STEPS - 1, 0.6); /* the run ends within the warm-up */
}

/* A run that was begun when cosine was counted from step 0 goes on so. */
static void test_old_cosine(void **state) {
  (void)state;
  struct learning_rate old =
      make(&(neap_train_options){.learning_rate = 0.8, .warmup_epochs = 0.5, .schedule = NEAP_LR_COSINE});
  old.old_cosine = true;
  const struct learning_rate cold =
      make(&(neap_train_options){.learning_rate = 0.8, .schedule = NEAP_LR_COSINE});
  expect_at(&old, EPOCH / 4 - 1, learning_rate_at(&cold, EPOCH / 4 - 1) / 2);
  for (int64_t step = EPOCH / 2; step < STEPS; step++)
    assert_true(learning_rate_at(&old, step) == learning_rate_at(&cold, step));
}

static void test_length(void **state) {
  (void)state;
  assert_false(learning_rate_depends_on_length(&(neap_train_options){0}));
  assert_true(learning_rate_depends_on_length(&(neap_train_options){.schedule = NEAP_LR_COSINE}));
  assert_true(learning_rate_depends_on_length(&(neap_train_options){.schedule = NEAP_LR_STEP}));
  assert_false(
      learning_rate_depends_on_length(&(neap_train_options){.schedule = NEAP_LR_STEP, .step_epochs = 2}));
}

/* Vaswani et al. 2017: rising, then falling as 1 / sqrt(step). */
static void test_inverse_sqrt(void **state) {
  (void)state;
  const neap_train_options options = {
      .learning_rate = 0.5, .schedule = NEAP_LR_INVERSE_SQRT, .warmup_steps = 40};
  struct learning_rate rate;
  assert_int_equal(learning_rate_create(&options, STEPS, EPOCH, &rate), NEAP_OK);
  for (int64_t step = 0; step < 400; step++) {
    const double number = (double)step + 1,
                 expected = 0.5 * fmin(number / 40, sqrt(40 / number)); /* of update `number` */
    assert_true(fabs(learning_rate_at(&rate, step) - expected) < 1e-12);
  }
  assert_false(learning_rate_depends_on_length(&options));
}

static void test_refused(void **state) {
  (void)state;
  const neap_train_options bad[] = {
      {.learning_rate = -1}, {.learning_rate = INFINITY}, {.warmup_epochs = -1},
      {.step_epochs = NAN},  {.step_factor = -0.1},       {.schedule = (neap_schedule_kind)4},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct learning_rate rate;
    assert_int_equal(learning_rate_create(&bad[i], STEPS, EPOCH, &rate), NEAP_INVALID_ARGUMENT);
  }
}

int run_test_learning_rate(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_constant),     cmocka_unit_test(test_cosine),     cmocka_unit_test(test_step),
      cmocka_unit_test(test_warmup),       cmocka_unit_test(test_length),     cmocka_unit_test(test_refused),
      cmocka_unit_test(test_inverse_sqrt), cmocka_unit_test(test_old_cosine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
