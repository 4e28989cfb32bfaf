/* The published counts of the chain algorithms. */
#include <stdlib.h>

#include "papers/bptt.h"
#include "papers/hong.h"
#include "papers/revolve.h"
#include "testing.h"

static int64_t count_forward(const chain_operations *operations) {
  int64_t count = 0;
  for (size_t i = 0; i < operations->count; i++)
    count += operations->data[i].action == CHAIN_FORWARD || operations->data[i].action == CHAIN_FORWARD_KEEP;
  return count;
}

static int64_t count_leaves(const chain_operations *operations) {
  int64_t count = 0;
  for (size_t i = 0; i < operations->count; i++) count += operations->data[i].action == CHAIN_LEAF;
  return count;
}

/* Runs operations on a chain of unit stages: every state that is read is there, backward goes from the last
 * stage to the first, and at no time are more than `slots` states held beside the current one, the input of
 * the chain included; all of a stage counts as `internal`. */
static void expect_runs(const chain_operations *operations, int32_t steps, int32_t slots, int32_t internal) {
  /* A state or an inside lives from where it is made to its last reading before it is made again. */
  const size_t n = operations->count;
  int32_t *last_use = calloc(n + 1, sizeof *last_use), *state = malloc(((size_t)steps + 1) * sizeof *state),
          *inside = malloc(((size_t)steps + 1) * sizeof *inside), *weight = calloc(n + 1, sizeof *weight);
  for (int32_t s = 0; s <= steps; s++) state[s] = inside[s] = -1;
  state[0] = 0; /* position 0 means the input; operation i makes what it makes at i + 1 */
  int32_t next = steps - 1;
  weight[0] = 1;
  for (size_t i = 0; i < n; i++) {
    const struct chain_operation o = operations->data[i];
    if (o.action == CHAIN_BACKWARD) {
      assert_true(inside[o.stage] >= 0);
      last_use[inside[o.stage]] = (int32_t)i;
    } else {
      assert_true(state[o.stage] >= 0);
      last_use[state[o.stage]] = (int32_t)i;
    }
    if (o.action == CHAIN_FORWARD || o.action == CHAIN_FORWARD_KEEP) {
      state[o.stage + 1] = (int32_t)i + 1;
      weight[i + 1] = 1;
    }
    if (o.action == CHAIN_FORWARD_KEEP) {
      inside[o.stage] = (int32_t)i + 1; /* holds the state behind it as well */
      weight[i + 1] = internal;
    }
    if (o.action == CHAIN_BACKWARD || o.action == CHAIN_LEAF) assert_int_equal(o.stage, next--);
  }
  assert_int_equal(next, -1);
  for (size_t i = 0; i < n; i++) { /* held while operation i runs: made before, read at i or after it */
    int32_t held = 0;
    for (size_t k = 0; k <= i; k++) /* a value that only the next operation reads is not held */
      if (last_use[k] >= (int32_t)i && last_use[k] > (int32_t)k) held += weight[k];
    assert_true(held <= slots);
  }
  free(last_use);
  free(state);
  free(inside);
  free(weight);
}

static void test_revolve_counts(void **state) {
  (void)state;
  static const int32_t slots[] = {3, 5, 10, 20, 50}, counts[] = {12155, 6284, 3636, 2747, 1948};
  for (int i = 0; i < 5; i++) {
    assert_int_equal(revolve_forward_steps(1000, slots[i]), counts[i]);
    chain_operations operations = {0};
    assert_int_equal(revolve_operations(1000, slots[i], &operations), NEAP_OK);
    assert_int_equal(count_forward(&operations), counts[i]);
    vector_free(&operations);
  }
  assert_int_equal(revolve_forward_steps(1, 1), 0);
  assert_int_equal(revolve_forward_steps(1000000, 1), 499999500000);
  assert_int_equal(revolve_forward_steps(1000000, 2000000), 999999);
}

/* The counts by their recurrence, and schedules that run. */
static void test_small_chains(void **state) {
  (void)state;
  enum { STEPS = 24 };
  int64_t least[STEPS + 1][STEPS + 1] = {{0}};
  for (int32_t m = 1; m <= STEPS; m++)
    for (int32_t t = 1; t <= STEPS; t++) {
      least[t][m] = (int64_t)t * (t - 1) / 2;
      for (int32_t y = 1; m > 1 && y < t; y++)
        if (y + least[t - y][m - 1] + least[y][m] < least[t][m])
          least[t][m] = y + least[t - y][m - 1] + least[y][m];
    }
  for (int32_t m = 1; m <= STEPS; m++)
    for (int32_t t = 1; t <= STEPS; t++) {
      struct bptt bptt;
      chain_operations operations = {0};
      assert_int_equal(revolve_forward_steps(t, m), least[t][m]);
      assert_int_equal(revolve_operations(t, m, &operations), NEAP_OK);
      assert_int_equal(count_forward(&operations), least[t][m]);
      expect_runs(&operations, t, m, 0);
      for (int32_t internal = 0; internal < 4; internal++) {
        assert_int_equal(bptt_create(t, m, internal, &bptt), NEAP_OK);
        operations.count = 0;
        assert_int_equal(bptt_operations(&bptt, m, &operations), NEAP_OK);
        assert_int_equal(count_forward(&operations) + count_leaves(&operations),
                         bptt_forward_steps(&bptt, m));
        expect_runs(&operations, t, m, internal);
        if (internal == 0) assert_int_equal(bptt_forward_steps(&bptt, m), least[t][m] + t);
        assert_true(bptt_forward_steps(&bptt, m) <= least[t][m] + t);
        bptt_free(&bptt);
      }
      vector_free(&operations);
    }
}

static void test_bptt_counts(void **state) {
  (void)state;
  static const int32_t slots[] = {2, 10, 50}, counts[] = {29820, 4636, 2948};
  struct bptt bptt;
  assert_int_equal(bptt_create(1000, 50, 0, &bptt), NEAP_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(bptt_forward_steps(&bptt, slots[i]), counts[i]);
  assert_int_equal(bptt_forward_steps(&bptt, 1), 500500);
  bptt_free(&bptt);
}

static void test_hong_counts(void **state) {
  (void)state;
  static const int32_t layers[] = {100, 1000, 10000}, peaks[] = {16, 47, 143};
  for (int i = 0; i < 3; i++) {
    const int32_t n = layers[i];
    uint64_t *bytes = malloc((size_t)n * sizeof *bytes), peak;
    int32_t *chosen = malloc((size_t)n * sizeof *chosen), count;
    for (int32_t k = 0; k < n; k++) bytes[k] = 1;
    assert_int_equal(hong_checkpoints(n, bytes, bytes, chosen, &count, &peak), NEAP_OK);
    assert_int_equal(peak, peaks[i]);
    assert_true(chosen[0] == 0 && chosen[count - 1] == n - 1);
    free(bytes);
    free(chosen);
  }
}

int run_test_chain_counts(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_revolve_counts),
                                     cmocka_unit_test(test_small_chains), cmocka_unit_test(test_bptt_counts),
                                     cmocka_unit_test(test_hong_counts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
